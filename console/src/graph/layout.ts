// The messages between the page and the worker that lays graphs out.

export interface LayoutRequest {
  id: number;
  nodes: { id: string; width: number; height: number }[];
  edges: [from: string, to: string][];
}

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  id: number;
  width: number;
  height: number;
  /** The centres of the nodes. */
  nodes: Record<string, Point>;
  edges: { from: string; to: string; points: Point[] }[];
}
