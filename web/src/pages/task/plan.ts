// A plan as a picture: its steps in layers by what they need, ordered so that few lines cross.

export interface PlanStep {
  name: string;
  intent: string;
  needs?: string[];
  when?: string;
}
export interface Node {
  name: string;
  x: number;
  y: number;
}
export interface Line {
  from: string;
  to: string;
  path: string;
}
export interface Picture {
  width: number;
  height: number;
  nodes: Node[];
  lines: Line[];
}

export const BOX = { width: 164, height: 46, gapX: 40, gapY: 16 };
/** What a line that passes a layer needs there. */
const BEND_HEIGHT = 6;
const SWEEPS = 8;

/** A place in a layer: a step, or a bend of a line that passes. */
interface Vertex {
  name: string;
  before: Vertex[];
  behind: Vertex[];
  isStep: boolean;
}

/** The number of the layer of each step: one more than the highest that it needs. */
export function layers(steps: readonly PlanStep[]): Map<string, number> {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const found = new Map<string, number>();
  const layer = (name: string, above: ReadonlySet<string>): number => {
    const known = found.get(name);
    if (known !== undefined) return known;
    const needs = (byName.get(name)?.needs ?? []).filter(
      (each) => byName.has(each) && !above.has(each),
    );
    const within = new Set(above).add(name);
    const value = Math.max(0, ...needs.map((each) => layer(each, within) + 1));
    found.set(name, value);
    return value;
  };
  for (const step of steps) layer(step.name, new Set());
  return found;
}

export function picture(steps: readonly PlanStep[]): Picture {
  const { columns, chains } = vertices(steps, layers(steps));
  order(columns);
  const places = new Map<Vertex, Node>();
  const height = Math.max(BOX.height, ...columns.map(heightOf));
  columns.forEach((column, at) => {
    let top = (height - heightOf(column)) / 2;
    for (const vertex of column) {
      places.set(vertex, { name: vertex.name, x: at * (BOX.width + BOX.gapX), y: top });
      top += high(vertex) + BOX.gapY;
    }
  });
  const nodes = [...places].filter(([vertex]) => vertex.isStep).map(([, node]) => node);
  const width = columns.length * (BOX.width + BOX.gapX) - BOX.gapX;
  return { width, height, nodes, lines: chains.map((chain) => line(chain, places)) };
}

const high = (vertex: Vertex) => (vertex.isStep ? BOX.height : BEND_HEIGHT);
const heightOf = (column: readonly Vertex[]) =>
  column.reduce((sum, vertex) => sum + high(vertex) + BOX.gapY, -BOX.gapY);

/** Steps in their layers, and for each line the vertices that it passes. */
function vertices(steps: readonly PlanStep[], layer: Map<string, number>) {
  const columns: Vertex[][] = [];
  const add = (name: string, at: number, isStep: boolean): Vertex => {
    const vertex: Vertex = { name, before: [], behind: [], isStep };
    while (columns.length <= at) columns.push([]);
    columns[at]!.push(vertex);
    return vertex;
  };
  const byName = new Map(
    steps.map((step) => [step.name, add(step.name, layer.get(step.name)!, true)]),
  );
  const chains: Vertex[][] = [];
  for (const step of steps) {
    for (const need of step.needs ?? []) {
      const from = byName.get(need);
      if (!from) continue;
      const chain = [from];
      for (let at = layer.get(need)! + 1; at < layer.get(step.name)!; at += 1) {
        chain.push(add(`${need} to ${step.name}`, at, false));
      }
      chain.push(byName.get(step.name)!);
      for (let at = 1; at < chain.length; at += 1) {
        chain[at]!.before.push(chain[at - 1]!);
        chain[at - 1]!.behind.push(chain[at]!);
      }
      chains.push(chain);
    }
  }
  return { columns, chains };
}

/** Each layer sorted by the middle of its neighbours, forth and back a few times. */
function order(columns: Vertex[][]): void {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const place = new Map<Vertex, number>();
    for (const column of columns) {
      column.forEach((vertex, row) => {
        place.set(vertex, row - column.length / 2);
      });
    }
    const middle = (vertex: Vertex) => {
      const near = sweep % 2 ? vertex.behind : vertex.before;
      if (!near.length) return place.get(vertex)!;
      return near.reduce((sum, each) => sum + place.get(each)!, 0) / near.length;
    };
    for (const column of columns) column.sort((a, b) => middle(a) - middle(b));
  }
}

function line(chain: readonly Vertex[], places: ReadonlyMap<Vertex, Node>): Line {
  let path = "";
  for (let at = 1; at < chain.length; at += 1) {
    const [from, to] = [chain[at - 1]!, chain[at]!];
    const [x0, y0] = [places.get(from)!.x + BOX.width, places.get(from)!.y + high(from) / 2];
    const [x1, y1] = [places.get(to)!.x, places.get(to)!.y + high(to) / 2];
    const middle = (x0 + x1) / 2;
    path += `${path ? "L" : "M"}${x0},${y0} C${middle},${y0} ${middle},${y1} ${x1},${y1}`;
  }
  return { from: chain[0]!.name, to: chain.at(-1)!.name, path };
}
