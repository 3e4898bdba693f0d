// What steps write while they work, as it comes. The page holds one stream: while the log is shown the run's own
// events wait, and are read from where they were when another view is opened.
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { type Block, LogStore } from "../api/logs.ts";
import type { RunStore } from "../api/runStore.ts";
import { LogKind } from "../gen/stepwell/v1/types_pb.ts";
import { moment, ms, number } from "../model/text.ts";
import { Foreign } from "../ui/foreign.tsx";
import { Empty, Problems } from "../ui/parts.tsx";
import { useChanges } from "../ui/store.ts";
import { TaskFilter } from "./filter.tsx";

export function LogsTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const log = useMemo(() => new LogStore(store.runId, taskId), [store.runId, taskId]);
  useEffect(() => {
    store.hold(true);
    const stop = log.start();
    return () => {
      stop();
      store.hold(false);
    };
  }, [store, log]);
  useChanges(log);
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [log.changes]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    atEnd.current = scrollTop + clientHeight >= scrollHeight - 4;
  };
  return (
    <>
      <div class="row tools">
        <TaskFilter taskId={taskId} />
        <small role="status">{log.ended ? "the whole log" : "live"}</small>
        {log.dropped > 0 && <small>the first {number(log.dropped)} entries are not shown any more</small>}
      </div>
      <Problems of={log.problem} />
      {log.blocks.length === 0 ? (
        <Empty>{log.ended ? "Nothing was written." : "Nothing has been written yet."}</Empty>
      ) : (
        <div class="log fill" ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-label="Log">
          {log.blocks.map((one) => (
            <LogBlock key={one.number} block={one} />
          ))}
        </div>
      )}
    </>
  );
}

/** An execution's name as people read it: a task's is `task:ID#ATTEMPT`. */
function who(executionId: string): string {
  return executionId.replace(/^task:/, "");
}

function LogBlock({ block }: { block: Block }) {
  const { entry, text } = block;
  if (entry.kind === LogKind.CUT) return <p class="cut">… {text}</p>;
  const level = entry.level.toLowerCase().replace(/[^a-z]/g, "");
  return (
    <div class={entry.kind === LogKind.CHUNK ? "chunk" : `line level-${level}`}>
      <small title={moment(ms(entry.writtenTime))}>
        {moment(ms(entry.writtenTime)).slice(11)} {who(entry.executionId)}
        {entry.kind === LogKind.LINE && entry.level !== "INFO" && ` ${entry.level}`}
      </small>
      <pre>
        <Foreign text={text} />
      </pre>
    </div>
  );
}
