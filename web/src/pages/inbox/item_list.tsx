// The list of the inbox: its groups, and a checkbox for each item that can be decided with others.
import { memo, useRef } from "react";
import { Link } from "../../router";
import { plain } from "../../text";
import { useReveal } from "../../ui/reveal";
import { When } from "../../ui/when";
import type { Group } from "./groups";
import { KIND_WORDS, type Waiting } from "./kinds";
import { inboxAddress } from "./settling";

interface Props {
  groups: readonly Group[];
  openId: string | undefined;
  chosen: ReadonlySet<string>;
  onChoose: (id: string) => void;
}

export function ItemList({ groups, openId, chosen, onChoose }: Props) {
  return (
    <div className="matters" data-scrolls>
      {groups.map((group) => (
        <div key={group.name} className="matter-group">
          {group.name && (
            <h2 className="group-name">
              {plain(group.name)} <span className="count">{group.items.length}</span>
            </h2>
          )}
          <ol aria-label={plain(group.name) || "Waiting for you"}>
            {group.items.map((each) => (
              <Item
                key={each.id}
                waiting={each}
                to={inboxAddress(each.id)}
                current={each.id === openId}
                chosen={chosen.has(each.id)}
                onChoose={onChoose}
              />
            ))}
          </ol>
        </div>
      ))}
    </div>
  );
}

interface ItemProps {
  waiting: Waiting;
  to: string;
  current: boolean;
  chosen: boolean;
  onChoose: (id: string) => void;
}

// Of a thousand entries, a key changes two.
const Item = memo(function Item({ waiting, to, current, chosen, onChoose }: ItemProps) {
  const entry = useRef<HTMLLIElement>(null);
  useReveal(entry, current);
  const { assignedTo } = waiting;
  const where = [waiting.project, waiting.intent, waiting.priority, assignedTo && `@${assignedTo}`];
  return (
    <li ref={entry} className="matter-entry" data-current={current}>
      {"task" in waiting.about && (
        <input
          type="checkbox"
          aria-label={`Select ${plain(waiting.title)}`}
          checked={chosen}
          onChange={() => onChoose(waiting.id)}
        />
      )}
      <Link to={to} className="matter-link" aria-current={current ? "true" : undefined}>
        <span className="matter-kind" data-kind={waiting.kind}>
          {KIND_WORDS[waiting.kind]}
        </span>
        <span className="faint age">
          <When at={waiting.since} />
        </span>
        <span className="matter-title">{plain(waiting.title)}</span>
        <span className="faint matter-where">{plain(where.filter(Boolean).join(" · "))}</span>
      </Link>
    </li>
  );
});
