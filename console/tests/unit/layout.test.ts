import assert from "node:assert/strict";
import { test } from "node:test";
import { HEIGHT, layOut, neighbour, WIDTH } from "../../src/graph/layout.ts";
import { fold, type GraphTask } from "../../src/graph/plan.ts";

function task(id: string, ...dependsOn: string[]): GraphTask {
  return { id, dependsOn, type: "t" };
}

/** Plans with crossing edges, edges over several layers, and wide layers. */
function plans(): GraphTask[][] {
  const crossing = [task("a"), task("b"), task("c", "b"), task("d", "a"), task("e", "a", "c"), task("f", "e", "b")];
  const fan = Array.from({ length: 60 }, (_, n) => task(`w${n}`, "root"));
  const wide = [task("root"), ...fan, task("end", ...fan.map((one) => one.id))];
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const mixed = Array.from({ length: 120 }, (_, n) =>
    task(`m${n}`, ...(n > 4 ? [`m${random(n)}`, `m${random(n)}`] : [])),
  );
  return [crossing, wide, mixed];
}

test("nodes of one column stand in the order of the plan, and none covers another", () => {
  for (const tasks of plans()) {
    const { nodes, width, height } = layOut(fold(tasks));
    for (const x of new Set([...nodes.values()].map((one) => one.x))) {
      const column = tasks.filter((one) => nodes.get(one.id)!.x === x);
      assert.ok(x - WIDTH / 2 >= 0 && x + WIDTH / 2 <= width);
      let before = 0;
      for (const { id } of column) {
        const top = nodes.get(id)!.y - HEIGHT / 2;
        assert.ok(top > before, `${id} at ${top} is above ${before}`);
        before = top + HEIGHT;
      }
      assert.ok(before <= height);
    }
  }
});

test("edges lead from left to right, and pass no node of a column between", () => {
  for (const tasks of plans()) {
    const { nodes, edges } = layOut(fold(tasks));
    for (const { from, to, points } of edges) {
      assert.ok(nodes.get(from)!.x < nodes.get(to)!.x);
      for (const [at, point] of points.slice(1, -1).entries()) {
        if (at % 2) continue;
        for (const [id, { x, y }] of nodes) {
          const through = Math.abs(x - WIDTH / 2 - point.x) < 1 && Math.abs(y - point.y) < HEIGHT / 2;
          assert.ok(!through, `${from} → ${to} passes behind ${id}`);
        }
      }
    }
  }
});

test("a chain is a straight line, and a fan is as high on both sides of its root", () => {
  const chain = layOut(fold([task("a"), task("b", "a"), task("c", "b")]));
  assert.equal(new Set([...chain.nodes.values()].map((one) => one.y)).size, 1);
  const fan = layOut(fold([task("root"), task("x", "root"), task("y", "root"), task("z", "root")])).nodes;
  assert.equal(Math.round(fan.get("root")!.y), Math.round(fan.get("y")!.y));
});

test("a wide layer has several columns, so that the graph is wider than high", () => {
  const { width, height } = layOut(fold(Array.from({ length: 300 }, (_, n) => task(`t${n}`))));
  assert.ok(width > height, `${width} × ${height}`);
});

test("a graph of 300 nodes with thousands of edges has bounded bends", () => {
  const tasks = Array.from({ length: 300 }, (_, n) =>
    task(`t${n}`, ...Array.from({ length: Math.min(n, 30) }, (_, back) => `t${n - back - 1}`)),
  );
  const { edges, nodes } = layOut(fold(tasks));
  assert.equal(edges.length, 3_000);
  assert.ok([...nodes.values()].every((one) => Number.isFinite(one.y)));
});

test("arrows lead along edges and within a column", () => {
  const layout = layOut(fold([task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")]));
  assert.ok(["b", "c"].includes(neighbour(layout, "a", "Right")!));
  assert.equal(neighbour(layout, "b", "Right"), "d");
  assert.equal(neighbour(layout, "b", "Left"), "a");
  assert.equal(neighbour(layout, "b", "Down"), "c");
  assert.equal(neighbour(layout, "c", "Up"), "b");
  assert.equal(neighbour(layout, "a", "Left"), undefined);
  assert.equal(neighbour(layout, "gone", "Left"), undefined);
});
