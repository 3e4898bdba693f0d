import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath, fold, type GraphTask, layers, order } from "../../src/graph/plan.ts";

function task(id: string, dependsOn: string[] = [], type = "t"): GraphTask {
  return { id, dependsOn, type };
}

test("a task's layer is the length of the longest path to it", () => {
  const found = layers([task("d", ["c", "a"]), task("c", ["b"]), task("b", ["a"]), task("a")]);
  assert.deepEqual(Object.fromEntries(found), { a: 0, b: 1, c: 2, d: 3 });
});

test("dependencies on tasks of another plan, and those named twice, count as they should", () => {
  const tasks = [task("a", ["gone"]), task("b", ["a", "a"])];
  assert.deepEqual(order(tasks), ["a", "b"]);
  assert.deepEqual(fold(tasks).edges, [["a", "b"]]);
});

test("a plan of at most 300 tasks is not folded", () => {
  const graph = fold(Array.from({ length: 300 }, (_, n) => task(`t${n}`)));
  assert.equal(graph.nodes.length, 300);
  assert.equal(graph.folded, false);
});

test("a wide plan is folded by layer and type", () => {
  const wide = Array.from({ length: 1_000 }, (_, n) => task(`w${n}`, ["root"], n % 2 ? "odd" : "even"));
  const graph = fold([task("root"), ...wide, task("end", wide.map((one) => one.id), "end")]);
  assert.deepEqual(
    graph.nodes.map((one) => [one.id, one.tasks.length, one.type]),
    [
      ["layer 0 t", 1, "t"],
      ["layer 1 even", 500, "even"],
      ["layer 1 odd", 500, "odd"],
      ["layer 2 end", 1, "end"],
    ],
  );
  assert.equal(graph.edges.length, 4);
});

test("a long chain is folded into bands of layers, without a cycle between them", () => {
  const chain = Array.from({ length: 10_000 }, (_, n) => task(`c${n}`, n ? [`c${n - 1}`] : []));
  const graph = fold(chain);
  assert.ok(graph.nodes.length <= 300);
  assert.equal(graph.nodes.reduce((sum, one) => sum + one.tasks.length, 0), 10_000);
  const at = new Map(graph.nodes.map((one, index) => [one.id, index]));
  for (const [from, to] of graph.edges) assert.ok(at.get(from)! < at.get(to)!);
});

test("names with spaces and quotes in them do not mix edges up", () => {
  const graph = fold([task('a "x'), task("b"), task("c", ['a "x', "b"])]);
  assert.equal(graph.edges.length, 2);
});

test("the critical path is the longest by time, not by number of tasks", () => {
  const tasks = [task("a"), task("b", ["a"]), task("c", ["b"]), task("slow"), task("end", ["c", "slow"])];
  const took: Record<string, number> = { a: 1, b: 1, c: 1, slow: 10, end: 1 };
  assert.deepEqual([...criticalPath(tasks, (id) => took[id]!)].sort(), ["end", "slow"]);
});

test("a plan that has not begun has no critical path", () => {
  assert.equal(criticalPath([task("a"), task("b", ["a"])], () => 0).size, 0);
});
