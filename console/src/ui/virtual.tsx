// A list of rows of equal height, of which only those that can be seen are in the document.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  count: number;
  rowHeight: number;
  label: string;
  row: (index: number) => ComponentChildren;
  keyOf: (index: number) => string;
  /** Called when the end of the list comes near. */
  more?: (() => void) | undefined;
  /** The row to be brought into view. */
  reveal?: number | undefined;
  /** Stay at the end while rows are added there. */
  sticky?: boolean;
  class?: string;
  /** What stays above the rows while they are scrolled. */
  head?: ComponentChildren;
}

const SPARE_ROWS = 8;

export function VirtualList(props: Props) {
  const { count, rowHeight } = props;
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const atEnd = useRef(true);

  useLayoutEffect(() => {
    const element = box.current!;
    const look = () => {
      const { scrollTop, clientHeight, scrollHeight } = element;
      atEnd.current = scrollTop + clientHeight >= scrollHeight - 2;
      setView((one) =>
        one.top === scrollTop && one.height === clientHeight
          ? one
          : { top: scrollTop, height: clientHeight },
      );
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE_ROWS);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + SPARE_ROWS);

  useEffect(() => {
    if (last >= count - SPARE_ROWS) props.more?.();
  }, [last, count]);

  useLayoutEffect(() => {
    const element = box.current!;
    if (props.sticky && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [count, props.sticky]);

  useLayoutEffect(() => {
    const element = box.current!;
    const index = props.reveal;
    if (index === undefined || index < 0) return;
    const top = index * rowHeight;
    const height = element.clientHeight - (list.current!.offsetTop - element.clientTop);
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + height) element.scrollTop = top + rowHeight - height;
  }, [props.reveal]);

  const rows = [];
  for (let index = first; index < last; index++) {
    rows.push(
      <li
        key={props.keyOf(index)}
        aria-setsize={count}
        aria-posinset={index + 1}
        style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
      >
        {props.row(index)}
      </li>,
    );
  }
  return (
    <div class={`virtual ${props.class ?? ""}`} ref={box} tabIndex={0} role="region" aria-label={props.label}>
      {props.head}
      <ul ref={list} style={{ height: `${count * rowHeight}px` }}>{rows}</ul>
    </div>
  );
}
