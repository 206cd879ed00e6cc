// The keys of the review page.
import { Dialog } from "../../ui/dialog";

const KEYS: [string[], string][] = [
  [["j", "k"], "next, previous file"],
  [["n", "p"], "next, previous comment"],
  [["v"], "mark the file as viewed, or not viewed"],
  [["c"], "comment on the selected lines, or on the file"],
  [["↑", "↓"], "on a line number: select the line above or below"],
  [["Shift", "↓"], "on a line number: extend the selection"],
  [["Esc"], "close the editor; the text stays as a draft"],
  [["Ctrl", "Enter"], "keep the comment as a draft"],
  [["e"], "next item of the inbox"],
  [["?"], "show the keys"],
];

export function KeyHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="key-list">
        {KEYS.map(([keys, does]) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
