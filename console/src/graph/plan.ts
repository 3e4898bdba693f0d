// The graph of a plan: its layers, its folding into at most so many nodes, and its critical path.

/** What the graph needs to know of a task. */
export interface GraphTask {
  id: string;
  type: string;
  dependsOn: readonly string[];
}

/** A node of the drawn graph: one task, or several that are folded together. */
export interface GraphNode {
  id: string;
  tasks: string[];
  /** The type that all of its tasks have; "" where they differ. */
  type: string;
}

export interface Graph {
  nodes: GraphNode[];
  edges: [from: string, to: string][];
  folded: boolean;
}

export const NODES_MAX = 300;

/** Returns each task's layer: the length of the longest path that leads to it. */
export function layers(tasks: readonly GraphTask[]): Map<string, number> {
  const byId = new Map(tasks.map((one) => [one.id, one]));
  const result = new Map<string, number>();
  for (const id of order(tasks)) {
    let layer = 0;
    for (const before of byId.get(id)!.dependsOn) {
      layer = Math.max(layer, (result.get(before) ?? -1) + 1);
    }
    result.set(id, layer);
  }
  return result;
}

/** Returns the ids so that each stands after those that it depends on. What is in a cycle is left out. */
export function order(tasks: readonly GraphTask[]): string[] {
  const known = new Set(tasks.map((one) => one.id));
  const open = new Map<string, number>();
  const dependents = new Map<string, string[]>();
  for (const task of tasks) {
    const before = new Set(task.dependsOn.filter((one) => known.has(one)));
    open.set(task.id, before.size);
    for (const one of before) {
      const list = dependents.get(one);
      if (list) list.push(task.id);
      else dependents.set(one, [task.id]);
    }
  }
  const sorted = tasks.filter((one) => !open.get(one.id)).map((one) => one.id);
  for (let index = 0; index < sorted.length; index++) {
    for (const next of dependents.get(sorted[index]!) ?? []) {
      const left = open.get(next)! - 1;
      open.set(next, left);
      if (!left) sorted.push(next);
    }
  }
  return sorted;
}

/**
 * Returns the graph to draw. With more than `max` tasks those of one layer and one type become one node; where
 * that is still too many, those of several layers do. The folding depends on the plan alone, so it stays while tasks
 * change their status.
 */
export function fold(tasks: readonly GraphTask[], max = NODES_MAX): Graph {
  const depth = layers(tasks);
  const drawn = tasks.filter((one) => depth.has(one.id));
  if (drawn.length <= max) return graphOf(drawn, (one) => one.id);
  const byLayer = (one: GraphTask) => `layer ${depth.get(one.id)} ${one.type}`;
  if (new Set(drawn.map(byLayer)).size <= max) return graphOf(drawn, byLayer);
  let deepest = 0;
  for (const one of drawn) deepest = Math.max(deepest, depth.get(one.id)!);
  const band = Math.ceil((deepest + 1) / max);
  return graphOf(drawn, (one) => `layers ${Math.floor(depth.get(one.id)! / band)}`);
}

function graphOf(tasks: readonly GraphTask[], group: (one: GraphTask) => string): Graph {
  const nodes = new Map<string, GraphNode>();
  const groups = new Map<string, string>();
  for (const task of tasks) {
    const id = group(task);
    groups.set(task.id, id);
    const node = nodes.get(id);
    if (!node) nodes.set(id, { id, tasks: [task.id], type: task.type });
    else {
      node.tasks.push(task.id);
      if (node.type !== task.type) node.type = "";
    }
  }
  const edges = new Map<string, [string, string]>();
  for (const task of tasks) {
    const to = groups.get(task.id)!;
    for (const one of task.dependsOn) {
      const from = groups.get(one);
      if (from !== undefined && from !== to) edges.set(JSON.stringify([from, to]), [from, to]);
    }
  }
  const folded = nodes.size < tasks.length;
  return { nodes: [...nodes.values()], edges: [...edges.values()], folded };
}

/** Returns the tasks of the longest path, by how long each took. */
export function criticalPath(
  tasks: readonly GraphTask[],
  took: (id: string) => number,
): Set<string> {
  const byId = new Map(tasks.map((one) => [one.id, one]));
  const until = new Map<string, number>();
  const before = new Map<string, string>();
  let last = "";
  for (const id of order(tasks)) {
    let longest = 0;
    for (const one of byId.get(id)!.dependsOn) {
      const length = until.get(one) ?? 0;
      if (length > longest || (length === longest && !before.has(id) && until.has(one))) {
        longest = length;
        before.set(id, one);
      }
    }
    until.set(id, longest + took(id));
    if (!last || until.get(id)! > until.get(last)!) last = id;
  }
  const path = new Set<string>();
  if (!last || !until.get(last)) return path;
  for (let id: string | undefined = last; id !== undefined; id = before.get(id)) path.add(id);
  return path;
}
