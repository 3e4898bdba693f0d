// The map of a graph that is larger than its window: the window is drawn in it, and can be moved.
import { useEffect, useState } from "preact/hooks";
import { TaskStatus } from "../gen/stepwell/v1/types_pb.ts";
import { HEIGHT, type Layout, WIDTH } from "../graph/layout.ts";
import type { Graph } from "../graph/plan.ts";
import type { RunView } from "../model/runView.ts";
import { word } from "../model/text.ts";

const MAP_WIDTH = 180;
const MAP_HEIGHT = 110;

interface Props {
  box: HTMLElement;
  layout: Layout;
  graph: Graph;
  view: RunView;
  scale: number;
}

/** The window's keys and scroll bars do the same, so readers of the screen go without the map. */
export function GraphMap({ box, layout, graph, view, scale }: Props) {
  const [, scrolled] = useState({});
  useEffect(() => {
    const look = () => scrolled({});
    box.addEventListener("scroll", look, { passive: true });
    return () => box.removeEventListener("scroll", look);
  }, [box]);
  const factor = Math.min(MAP_WIDTH / layout.width, MAP_HEIGHT / layout.height);
  const move = (event: PointerEvent) => {
    if (!event.buttons) return;
    const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
    const to = (at: number, size: number) => (at / factor) * scale - size / 2;
    box.scrollTo(to(event.clientX - left, box.clientWidth), to(event.clientY - top, box.clientHeight));
  };
  return (
    <svg
      class="graph-map"
      width={layout.width * factor}
      height={layout.height * factor}
      viewBox={`0 0 ${layout.width} ${layout.height}`}
      aria-hidden="true"
      onPointerDown={move}
      onPointerMove={move}
    >
      {graph.nodes.map((node) => {
        const at = layout.nodes.get(node.id)!;
        const status = node.tasks.length === 1 ? (view.tasks.get(node.tasks[0]!)?.status ?? TaskStatus.PENDING) : 0;
        return (
          <rect
            key={node.id}
            class={status ? `share task-${word(TaskStatus, status)}` : "share"}
            x={at.x - WIDTH / 2}
            y={at.y - HEIGHT / 2}
            width={WIDTH}
            height={HEIGHT}
          />
        );
      })}
      <rect
        class="window"
        x={box.scrollLeft / scale}
        y={box.scrollTop / scale}
        width={box.clientWidth / scale}
        height={box.clientHeight / scale}
      />
    </svg>
  );
}
