// How the diff is shown: the range of rounds, unified or side by side, with or without white space.
import type { Review } from "../../api/schema";
import { useSearch } from "../../router";
import type { View } from "./file_section";

interface Props {
  review: Review;
  since: string | null;
  view: View;
  setView: (changes: Partial<View>) => void;
  /** Whether there is room for two sides. */
  wide: boolean;
  onHelp: () => void;
}

export function Toolbar({ review, since, view, setView, wide, onHelp }: Props) {
  const [, change] = useSearch();
  return (
    <div className="review-tools" role="toolbar" aria-label="View of the diff">
      <div className="row">
        <span className="faint" id="range-name">
          Changes
        </span>
        <select
          aria-labelledby="range-name"
          className="input small"
          data-set={since !== null}
          value={since ?? ""}
          onChange={(event) => change({ since: event.target.value, file: null })}
        >
          <option value="">all</option>
          {review.earlier.map((each) => (
            <option key={each.sha256} value={each.sha256}>
              since round {each.round}
            </option>
          ))}
        </select>
      </div>
      {wide && (
        <div className="segments" role="group" aria-label="Layout">
          <button
            type="button"
            aria-pressed={!view.split}
            onClick={() => setView({ split: false })}
          >
            Unified
          </button>
          <button type="button" aria-pressed={view.split} onClick={() => setView({ split: true })}>
            Side by side
          </button>
        </div>
      )}
      <label className="check">
        <input
          type="checkbox"
          checked={view.hideSpace}
          onChange={(event) => setView({ hideSpace: event.target.checked })}
        />
        Hide white space changes
      </label>
      <button type="button" className="link-button" onClick={onHelp}>
        Keys <kbd>?</kbd>
      </button>
    </div>
  );
}
