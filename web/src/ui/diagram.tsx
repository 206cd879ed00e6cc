// A lifecycle drawn as the server lays it out, in this page's colours: one state may be lit, a
// way may be drawn, and states may carry a count.
import { useRead } from "../api/hooks";
import type { DiagramArrow, DiagramBox, Diagram as Drawing } from "../api/schema";
import { words } from "../text";
import { Loading, Trouble } from "./notes";
import { Shape } from "./state";
import { useLook, useTable } from "./tables";

interface Props {
  name: string;
  lit?: string;
  /** Steps of the way taken, as `from>event`. */
  way?: ReadonlySet<string>;
  counts?: Record<string, number>;
}
const LINE = 15;
const MARGIN = 8;

export const wayKey = (from: string | null, event: string) => `${from ?? ""}>${event}`;

export function Diagram({ name, ...rest }: Props) {
  const drawing = useRead("lifecycle_diagram", { name }, { fixed: true });
  if (drawing.error) return <Trouble problem={drawing.error} again={drawing.refetch} />;
  if (!drawing.data || drawing.data.id !== name) return <Loading what="the diagram" />;
  return <Picture drawing={drawing.data} name={name} {...rest} />;
}

function Picture({ drawing, name, lit, way, counts }: Props & { drawing: Drawing }) {
  const [width, height] = [drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN];
  const title = useTable(name).title;
  const taken = (arrow: DiagramArrow) =>
    way !== undefined && arrow.events.some((event) => way.has(wayKey(arrow.source, event)));
  return (
    <div className="scroll diagram" tabIndex={0} role="region" aria-label={`Diagram: ${title}`}>
      <svg
        viewBox={`${-MARGIN} ${-MARGIN} ${width} ${height}`}
        width={width}
        height={height}
        role="img"
        aria-label={`${title}.${lit ? ` Now: ${words(lit)}.` : ""}`}
        className={way ? "with-way" : ""}
      >
        <defs>
          {["plain", "taken"].map((kind) => (
            <marker
              key={kind}
              id={`head-${kind}-${name}`}
              viewBox="0 0 8 8"
              refX="8"
              refY="4"
              markerWidth="8"
              markerHeight="8"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0,0.5 L8,4 L0,7.5 z" className={`head ${kind}`} />
            </marker>
          ))}
        </defs>
        {drawing.arrows.map((arrow) => (
          <path
            key={`${arrow.source} ${arrow.target} ${arrow.extension}`}
            d={arrow.path}
            className={`arrow ${arrow.extension ? "extension" : ""} ${taken(arrow) ? "taken" : ""}`}
            markerEnd={`url(#head-${taken(arrow) ? "taken" : "plain"}-${name})`}
          />
        ))}
        {drawing.arrows.map((arrow) => (
          <ArrowLabel
            key={`${arrow.source} ${arrow.target} ${arrow.extension}`}
            arrow={arrow}
            way={way}
          />
        ))}
        {drawing.boxes.map((box) =>
          box.state ? (
            <Box
              key={box.state}
              box={box}
              table={name}
              lit={box.state === lit}
              count={counts?.[box.state]}
            />
          ) : (
            <circle
              key="start"
              className="start"
              cx={box.x + box.width / 2}
              cy={box.y + box.height / 2}
              r={box.width / 2}
            />
          ),
        )}
      </svg>
    </div>
  );
}

interface LabelProps {
  arrow: DiagramArrow;
  way: ReadonlySet<string> | undefined;
}

function ArrowLabel({ arrow, way }: LabelProps) {
  const texts = arrow.events;
  const wide = Math.max(...texts.map((text) => text.length)) * 6.1 + 6;
  const top = arrow.y - ((arrow.events.length - 1) * LINE) / 2;
  return (
    <g className={`label ${arrow.extension ? "extension" : ""}`}>
      <rect
        x={arrow.x - wide / 2}
        y={arrow.y - (texts.length * LINE) / 2}
        width={wide}
        height={texts.length * LINE}
      />
      {texts.map((text, at) => (
        <text
          key={text}
          className={way?.has(wayKey(arrow.source, text)) ? "taken" : ""}
          x={arrow.x}
          y={top + at * LINE}
          dy="0.35em"
        >
          {text}
        </text>
      ))}
    </g>
  );
}

interface BoxProps {
  box: DiagramBox;
  table: string;
  lit: boolean;
  count: number | undefined;
}

function Box({ box, table, lit, count }: BoxProps) {
  const { look, appearance } = useLook(table, box.state);
  const lifecycle = useTable(table);
  const ended = lifecycle.terminal.includes(box.state);
  const middle = box.x + box.width / 2;
  const lines = 1 + box.loops.length;
  const top = box.y + box.height / 2 - ((lines - 1) * LINE) / 2;
  const left = middle - (box.state.length * 7.3) / 2 - 12;
  return (
    <g className={`box ${lit ? "lit" : ""}`} data-look={look} data-state={box.state}>
      <title>{lifecycle.meanings[box.state]}</title>
      <rect x={box.x} y={box.y} width={box.width} height={box.height} rx="8" />
      {ended && (
        <rect
          className="inner"
          x={box.x + 3}
          y={box.y + 3}
          width={box.width - 6}
          height={box.height - 6}
          rx="6"
        />
      )}
      <svg x={left} y={top - 6} width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
        <Shape name={appearance.shape} />
      </svg>
      <text className="name" x={middle + 8} y={top} dy="0.35em">
        {box.state}
      </text>
      {box.loops.map((event, at) => (
        <text key={event} className="loop" x={middle} y={top + (at + 1) * LINE} dy="0.35em">
          ↻ {event}
        </text>
      ))}
      {count !== undefined && count > 0 && (
        <g className="box-count">
          <rect
            x={box.x + box.width - 14 - 7 * String(count).length}
            y={box.y - 9}
            width={12 + 7 * String(count).length}
            height="18"
            rx="9"
          />
          <text x={box.x + box.width - 8 - 3.5 * String(count).length} y={box.y} dy="0.35em">
            {count}
          </text>
        </g>
      )}
    </g>
  );
}
