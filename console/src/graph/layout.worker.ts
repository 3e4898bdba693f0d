// Lays graphs out, apart from the thread that answers a person's input.
import { graphlib, layout } from "@dagrejs/dagre";
import type { Layout, LayoutRequest, Point } from "./layout.ts";

// Beyond this the crossing of edges can't be followed by eye; a layout without it is quick.
const EDGES_MAX = 3_000;

onmessage = (event: MessageEvent<LayoutRequest>) => {
  const { id, nodes, edges } = event.data;
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 44, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { width: node.width, height: node.height });
  for (const [from, to] of edges.slice(0, EDGES_MAX)) graph.setEdge(from, to);
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  const result: Layout = {
    id,
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: Object.fromEntries(
      graph.nodes().map((name: string) => {
        const { x, y } = graph.node(name) as Point;
        return [name, { x, y }];
      }),
    ),
    edges: graph.edges().map((edge: { v: string; w: string }) => {
      const { points } = graph.edge(edge) as { points: Point[] };
      return { from: edge.v, to: edge.w, points };
    }),
  };
  postMessage(result);
};
