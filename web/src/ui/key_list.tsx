// The list of the keys that work on the open page.
import { Dialog } from "./dialog";
import { type KeyHelp, useKeyHelp } from "./keys";

/** Keys that work on every page. */
const EVERYWHERE: KeyHelp = [
  ["ctrl k", "find a page, an action or a task"],
  ["c", "create a task (not on the review page)"],
  ["?", "show the keys"],
];

export function KeyList({ onClose }: { onClose: () => void }) {
  const page = useKeyHelp();
  return (
    <Dialog title="Keys" onClose={onClose}>
      {page.length > 0 && <Section name="On this page" keys={page} />}
      <Section name="On every page" keys={EVERYWHERE} />
    </Dialog>
  );
}

function Section({ name, keys }: { name: string; keys: KeyHelp }) {
  return (
    <>
      <h3>{name}</h3>
      <dl className="key-list">
        {keys.map(([pressed, does]) => (
          <div key={pressed}>
            <dt>
              {pressed.split(" ").map((each) => (
                <kbd key={each}>{each}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
