// Small SVG charts: bars or lines over time, with thresholds as labelled dashed lines.
import { useState } from "react";

export interface Line {
  name: string;
  look: string;
  values: (number | null)[];
}
export interface Mark {
  value: number;
  name: string;
  look: string;
}
interface Props {
  title: string;
  /** The start of each piece of time, in words. */
  times: string[];
  lines: Line[];
  marks?: Mark[];
  kind: "bars" | "lines";
  say: (value: number) => string;
  /** The highest value of the axis, where it is known. */
  most?: number;
}

const WIDTH = 420;
const HEIGHT = 150;
const LEFT = 46;
const BOTTOM = 20;
const TOP = 12;

export function Chart({ title, times, lines, marks = [], kind, say, most }: Props) {
  const [at, setAt] = useState<number | null>(null);
  const stacked = kind === "bars";
  const heights = times.map((_, index) =>
    stacked
      ? lines.reduce((sum, line) => sum + (line.values[index] ?? 0), 0)
      : Math.max(0, ...lines.map((line) => line.values[index] ?? 0)),
  );
  const any = lines.some((line) => line.values.some((value) => value !== null && value !== 0));
  const known = Math.max(...heights, 0);
  const near = marks.filter((mark) => mark.value <= Math.max(known * 3, 0));
  const top = most ?? roundTop(Math.max(known, ...near.map((mark) => mark.value)));
  const x = (index: number) => LEFT + (index / Math.max(times.length, 1)) * (WIDTH - LEFT);
  const wide = (WIDTH - LEFT) / Math.max(times.length, 1);
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  return (
    <figure className="chart">
      <figcaption>
        <strong>{title}</strong>
        <span className="legend">
          {at !== null && <span>{times[at]}</span>}
          {lines.map((line) => (
            <span key={line.name} className="legend-entry" data-look={line.look}>
              <span className="swatch" data-kind={kind} aria-hidden="true" />
              {line.name}
              {at !== null && <strong> {valueAt(line, at, say)}</strong>}
            </span>
          ))}
          {marks.map((mark) => (
            <span key={mark.name} className="legend-entry" data-look={mark.look}>
              <span className="swatch" data-kind="limit" aria-hidden="true" />
              {mark.name}
              {mark.value > top && ", far above"}
            </span>
          ))}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${title}: ${summary(lines, say)}`}
      >
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <line className="grid" x1={LEFT} x2={WIDTH} y1={y(top * part)} y2={y(top * part)} />
            <text className="axis" x={LEFT - 6} y={y(top * part)} dy="0.35em" textAnchor="end">
              {say(top * part)}
            </text>
          </g>
        ))}
        {stacked
          ? times.map((_, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: two pieces may have the same words
              <Stack key={index} lines={lines} index={index} x={x(index)} wide={wide} y={y} />
            ))
          : lines.map((line) => (
              <Curve key={line.name} line={line} x={(index) => x(index) + wide / 2} y={y} />
            ))}
        {marks
          .filter((mark) => mark.value <= top)
          .map((mark) => (
            <line
              key={mark.name}
              className="threshold"
              data-look={mark.look}
              x1={LEFT}
              x2={WIDTH}
              y1={y(mark.value)}
              y2={y(mark.value)}
            />
          ))}
        {labelled(times.length).map((index) => (
          <text
            key={index}
            className="axis"
            x={index === 0 ? LEFT : x(index) + wide / 2}
            y={HEIGHT - 5}
            textAnchor={index === 0 ? "start" : index === times.length - 1 ? "end" : "middle"}
          >
            {times[index]}
          </text>
        ))}
        {times.map((_, index) => (
          <rect
            // biome-ignore lint/suspicious/noArrayIndexKey: two pieces may have the same words
            key={index}
            className={`over ${index === at ? "here" : ""}`}
            x={x(index)}
            y={TOP}
            width={wide}
            height={HEIGHT - TOP - BOTTOM}
            onPointerEnter={() => setAt(index)}
            onPointerLeave={() => setAt(null)}
          />
        ))}
        {!any && (
          <text className="nothing" x={(LEFT + WIDTH) / 2} y={HEIGHT / 2 - 6} textAnchor="middle">
            nothing in this window
          </text>
        )}
      </svg>
    </figure>
  );
}

/** The end of an axis: a round number that is a little higher than what is shown, and even, so that
 * the middle of the axis is round too. */
export function roundTop(value: number): number {
  if (value <= 0) return 2;
  const unit = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 2, 4, 6, 8, 10, 20];
  return (steps.find((each) => each * unit >= value * 1.05) ?? 20) * unit;
}

/** The pieces of time that have a label: the first, the middle and the last one. */
function labelled(count: number): number[] {
  return [...new Set([0, Math.floor(count / 2), count - 1])];
}

interface StackProps {
  lines: Line[];
  index: number;
  x: number;
  wide: number;
  y: (value: number) => number;
}

function Stack({ lines, index, x, wide, y }: StackProps) {
  let below = 0;
  return (
    <>
      {lines.map((line) => {
        const value = line.values[index] ?? 0;
        const bottom = below;
        below += value;
        if (!value) return null;
        return (
          <rect
            key={line.name}
            className="series"
            data-look={line.look}
            x={x + wide * 0.12}
            width={wide * 0.76}
            y={y(below)}
            height={Math.max(y(bottom) - y(below), 1)}
          />
        );
      })}
    </>
  );
}

function Curve({
  line,
  x,
  y,
}: {
  line: Line;
  x: (index: number) => number;
  y: (value: number) => number;
}) {
  let path = "";
  let pen = false;
  line.values.forEach((value, index) => {
    if (value === null) {
      pen = false;
      return;
    }
    path += `${pen ? "L" : "M"}${x(index).toFixed(1)},${y(value).toFixed(1)}`;
    pen = true;
  });
  return (
    <g className="series" data-look={line.look}>
      <path d={path} />
      {line.values.map((value, index) =>
        // biome-ignore lint/suspicious/noArrayIndexKey: a point is its place
        value === null ? null : <circle key={index} cx={x(index)} cy={y(value)} r="2" />,
      )}
    </g>
  );
}

function valueAt(line: Line, at: number, say: (value: number) => string): string {
  const value = line.values[at];
  return value == null ? "none" : say(value);
}

function summary(lines: Line[], say: (value: number) => string): string {
  return lines
    .map((line) => {
      const last = line.values.findLast((value) => value !== null);
      return `${line.name} last ${last == null ? "none" : say(last)}`;
    })
    .join("; ");
}
