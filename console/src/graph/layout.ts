// The layout of a graph: layers from left to right, and in each of them the order of the plan from top to bottom.
import { type Graph, layers } from "./plan.ts";

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  /** The centres of the nodes. */
  nodes: Map<string, Point>;
  /** Each edge with its bends, from the right side of one node to the left side of another. */
  edges: { from: string; to: string; points: Point[] }[];
}

export const WIDTH = 196;
export const HEIGHT = 46;
const MARGIN = 16;
const GAP = 14;
const BEND_HEIGHT = 6;
/** Between the columns of one layer, and between layers. */
const COLUMN_GAP = 26;
const LAYER_GAP = 52;
/** A layer of more nodes is a grid, so that a wide plan fits a wide window. */
const ROWS_MAX = 16;
/** More edges can't be followed by eye. */
const EDGES_MAX = 3_000;
/** With more bends than these, edges go straight, behind the nodes. */
const BENDS_MAX = 6_000;
const SWEEPS = 10;
const ABOVE = -1;
const BELOW = Number.POSITIVE_INFINITY;

/** A node, or the place where edges pass through a column. */
interface Slot {
  /** Slots of a column stand in the order of their keys. */
  key: number;
  y: number;
  height: number;
  before: Set<Slot>;
  after: Set<Slot>;
}

interface Column {
  slots: Slot[];
  left: number;
  /** Whether it is a part of a grid, in which the rows are even. Edges pass above and below it. */
  grid: boolean;
}

export function layOut(graph: Graph): Layout {
  const { columnOf, columns, width } = columnsOf(graph);
  const keys = new Map(graph.nodes.map((one, index) => [one.id, index]));
  const slots = new Map<string, Slot>();
  for (const { id } of graph.nodes) {
    const slot = newSlot(keys.get(id)!, HEIGHT);
    slots.set(id, slot);
    columns[columnOf.get(id)!]!.slots.push(slot);
  }
  const edges = graph.edges.slice(0, EDGES_MAX);
  const routes = route(edges, columnOf, columns, slots, keys);
  for (const { slots } of columns) slots.sort((a, b) => a.key - b.key);
  const height = place(columns);
  const nodes = new Map<string, Point>();
  for (const [id, slot] of slots) nodes.set(id, { x: columns[columnOf.get(id)!]!.left + WIDTH / 2, y: slot.y });
  return {
    width,
    height,
    nodes,
    edges: edges.map(([from, to], index) => {
      const start = nodes.get(from)!;
      const end = nodes.get(to)!;
      const points = [{ x: start.x + WIDTH / 2, y: start.y }];
      routes[index]!.forEach((bend, step) => {
        const { left } = columns[columnOf.get(from)! + 1 + step]!;
        points.push({ x: left, y: bend.y }, { x: left + WIDTH, y: bend.y });
      });
      points.push({ x: end.x - WIDTH / 2, y: end.y });
      return { from, to, points };
    }),
  };
}

function newSlot(key: number, height: number): Slot {
  return { key, y: 0, height, before: new Set(), after: new Set() };
}

/** Returns the columns, and for each node which one it stands in. */
function columnsOf(graph: Graph) {
  const dependsOn = new Map<string, string[]>(graph.nodes.map((one) => [one.id, []]));
  for (const [from, to] of graph.edges) dependsOn.get(to)?.push(from);
  const depth = layers(graph.nodes.map(({ id, type }) => ({ id, type, dependsOn: dependsOn.get(id)! })));
  const byLayer: string[][] = [];
  for (const { id } of graph.nodes) (byLayer[depth.get(id) ?? 0] ??= []).push(id);
  const columnOf = new Map<string, number>();
  const columns: Column[] = [];
  let left = MARGIN;
  for (const ids of byLayer) {
    const rows = Math.ceil(ids.length / Math.ceil(ids.length / ROWS_MAX));
    ids.forEach((id, index) => {
      if (index % rows === 0) {
        if (index) left += COLUMN_GAP - LAYER_GAP;
        columns.push({ slots: [], left, grid: ids.length > ROWS_MAX });
        left += WIDTH + LAYER_GAP;
      }
      columnOf.set(id, columns.length - 1);
    });
  }
  return { columnOf, columns, width: left - LAYER_GAP + MARGIN };
}

/**
 * Gives edges that pass columns a bend in each. Edges that leave one node share their bends, and so do those that come to
 * one node from several; returns the bends of each edge.
 */
function route(
  edges: Graph["edges"],
  columnOf: Map<string, number>,
  columns: Column[],
  slots: Map<string, Slot>,
  keys: Map<string, number>,
): Slot[][] {
  const far = edges.map(([from, to]) => columnOf.get(to)! - columnOf.get(from)! > 1);
  const leaving = new Map<string, number>();
  const coming = new Map<string, number>();
  edges.forEach(([from, to], index) => {
    if (!far[index]) return;
    leaving.set(from, (leaving.get(from) ?? 0) + 1);
    coming.set(to, (coming.get(to) ?? 0) + 1);
  });
  const shared = new Map<string, Slot>();
  const sums = new Map<Slot, [sum: number, count: number]>();
  const routes = edges.map(([from, to], index) => {
    const start = slots.get(from)!;
    const end = slots.get(to)!;
    const bends: Slot[] = [];
    if (far[index] && shared.size < BENDS_MAX) {
      const common = leaving.get(from)! >= coming.get(to)! ? `from ${from}` : `to ${to}`;
      for (let column = columnOf.get(from)! + 1; column < columnOf.get(to)!; column++) {
        const name = JSON.stringify([column, common]);
        let bend = shared.get(name);
        if (!bend) {
          bend = newSlot(common.startsWith("from ") ? ABOVE : BELOW, BEND_HEIGHT);
          shared.set(name, bend);
          columns[column]!.slots.push(bend);
        }
        if (!columns[column]!.grid) {
          const [sum, count] = sums.get(bend) ?? [0, 0];
          sums.set(bend, [sum + (keys.get(from)! + keys.get(to)!) / 2, count + 1]);
        }
        bends.push(bend);
      }
    }
    [start, ...bends, end].reduce((a, b) => {
      if (bends.length || !far[index]) {
        a.after.add(b);
        b.before.add(a);
      }
      return b;
    });
    return bends;
  });
  for (const [bend, [sum, count]] of sums) bend.key = sum / count;
  return routes;
}

/** Gives each slot its height on the page, near the middle of those that it is connected with; returns the height of all. */
function place(columns: Column[]): number {
  for (const { slots } of columns) {
    const above = slots.filter((one) => one.key === ABOVE).length;
    spread(slots, (_, index) => (index - above) * (HEIGHT + GAP));
  }
  const free = columns.filter((one) => !one.grid);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const forth = sweep % 2 === 0;
    const last = sweep >= SWEEPS - 2;
    for (const { slots } of forth ? free : free.toReversed()) {
      spread(slots, (slot) => {
        const near = last ? [...slot.before, ...slot.after] : [...(forth ? slot.before : slot.after)];
        return near.length ? near.reduce((sum, one) => sum + one.y, 0) / near.length : slot.y;
      });
    }
  }
  let top = Number.POSITIVE_INFINITY;
  let bottom = 0;
  const all = columns.flatMap((one) => one.slots);
  for (const { y, height } of all) top = Math.min(top, y - height / 2);
  for (const slot of all) {
    slot.y += MARGIN - top;
    bottom = Math.max(bottom, slot.y + slot.height / 2);
  }
  return bottom + MARGIN;
}

/** Puts the slots of a column as near to what they wish for as their order and their heights let them. */
function spread(column: Slot[], wish: (slot: Slot, index: number) => number): void {
  // Without the heights the places only have to rise; where they would fall, neighbours share their mean.
  const blocks: { sum: number; count: number }[] = [];
  const offsets: number[] = [];
  let offset = 0;
  column.forEach((slot, index) => {
    if (index) offset += (column[index - 1]!.height + slot.height) / 2 + GAP;
    offsets.push(offset);
    blocks.push({ sum: wish(slot, index) - offset, count: 1 });
    for (let at = blocks.length - 1; at > 0; at--) {
      const [a, b] = [blocks[at - 1]!, blocks[at]!];
      if (a.sum / a.count <= b.sum / b.count) break;
      blocks.splice(at - 1, 2, { sum: a.sum + b.sum, count: a.count + b.count });
    }
  });
  let index = 0;
  for (const { sum, count } of blocks) {
    for (let one = 0; one < count; one++, index++) column[index]!.y = sum / count + offsets[index]!;
  }
}

/** A smooth line through the points of an edge. */
export function curve([first, ...rest]: readonly Point[]): string {
  if (!first) return "";
  let text = `M${first.x},${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle = (before.x + point.x) / 2;
    text += point.y === before.y ? `H${point.x}` : `C${middle},${before.y} ${middle},${point.y} ${point.x},${point.y}`;
    before = point;
  }
  return text;
}

/** Returns the node next to one: along an edge for left and right, in its column for up and down. */
export function neighbour(layout: Layout, id: string, direction: "Left" | "Right" | "Up" | "Down"): string | undefined {
  const here = layout.nodes.get(id);
  if (!here) return undefined;
  const along = direction === "Left" || direction === "Right";
  const found = along
    ? layout.edges.flatMap(({ from, to }) =>
        direction === "Right" && from === id ? [to] : direction === "Left" && to === id ? [from] : [],
      )
    : [...layout.nodes].flatMap(([other, { x, y }]) =>
        x === here.x && (direction === "Up" ? y < here.y : y > here.y) ? [other] : [],
      );
  const away = (other: string) => Math.abs(layout.nodes.get(other)!.y - here.y);
  return found.sort((a, b) => away(a) - away(b))[0];
}
