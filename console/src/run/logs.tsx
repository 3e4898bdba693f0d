// What steps write while they work, as it comes. The page holds one stream: while the log is shown the run's own
// events wait, and are read from where they were when another view is opened.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Problem, problem } from "../api/client.ts";
import { LogStore } from "../api/logs.ts";
import type { RunStore } from "../api/runStore.ts";
import { LogKind } from "../gen/stepwell/v1/types_pb.ts";
import { type Block, byAttempt, split, who } from "../model/logText.ts";
import { count, moment, ms, number } from "../model/text.ts";
import { Foreign } from "../ui/foreign.tsx";
import { useKeys } from "../ui/keyboard.ts";
import { Empty, Problems } from "../ui/parts.tsx";
import { saveAs } from "../ui/save.ts";
import { useChanges } from "../ui/store.ts";
import { TaskFilter } from "./filter.tsx";

export function LogsTab({ store, taskId }: { store: RunStore; taskId: string }) {
  const live = useMemo(() => new LogStore(store.runId, taskId), [store.runId, taskId]);
  useEffect(() => {
    store.hold(true);
    const stop = live.start();
    return () => {
      stop();
      store.hold(false);
    };
  }, [store, live]);
  useChanges(live);
  const [grouped, setGrouped] = useState(false);
  const [wrap, setWrap] = useState(true);
  const [text, setText] = useState("");
  const [failed, setFailed] = useState<Problem>();
  const field = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const { follow, setFollow, scrolled, setContent } = useFollowing(box);
  useKeys({ "/": () => field.current?.focus() });
  const words = text.trim().toLowerCase();
  const { blocks, dropped } = live.log;
  const shown = words ? blocks.filter((one) => one.text.toLowerCase().includes(words)) : blocks;
  // What has not changed isn't drawn again: a long log grows many times a second.
  const drawn = useMemo(() => new WeakMap<Block, VNode>(), [words]);
  const draw = (one: Block) => {
    const known = drawn.get(one) ?? <LogBlock key={one.number} block={one} words={words} />;
    drawn.set(one, known);
    return known;
  };
  const save = async () => {
    try {
      saveAs(new TextEncoder().encode(await live.whole()), `${store.runId}${taskId && `-${taskId}`}.log`);
      setFailed(undefined);
    } catch (error) {
      setFailed(problem(error));
    }
  };
  return (
    <>
      <div class="row tools">
        <TaskFilter taskId={taskId} />
        <input
          ref={field}
          type="search"
          aria-label="Search the log"
          placeholder="Words"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && next(box.current, event.shiftKey)}
        />
        <Toggle label="By step" on={grouped} set={setGrouped} />
        <Toggle label="Wrap" on={wrap} set={setWrap} />
        <Toggle label="Follow" on={follow} set={setFollow} />
        <button type="button" class="small" onClick={() => void save()}>
          Download
        </button>
        <small role="status">{live.ended ? "the whole log" : "live"}</small>
        <small>{words ? `${number(shown.length)} of ${count(blocks.length, "part")}` : ""}</small>
        {dropped > 0 && <small>the first {number(dropped)} entries are in the download only</small>}
      </div>
      <Problems of={live.problem ?? failed} />
      {blocks.length === 0 ? (
        <Empty>{live.ended ? "Nothing was written." : "Nothing has been written yet."}</Empty>
      ) : (
        <div
          class={`log fill ${wrap ? "" : "nowrap"}`}
          ref={box}
          onScroll={scrolled}
          tabIndex={0}
          role="log"
          aria-label="Log"
        >
          <div ref={setContent}>
            {grouped
              ? byAttempt(shown).map(([executionId, list]) => (
                  <details key={executionId} class="log-step" open>
                    <summary>
                      {titleOf(store, executionId)} <small>{count(list.length, "part")}</small>
                    </summary>
                    {list.map(draw)}
                  </details>
                ))
              : shown.map(draw)}
          </div>
        </div>
      )}
    </>
  );
}

function Toggle({ label, on, set }: { label: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <button type="button" class="small chip" aria-pressed={on} onClick={() => set(!on)}>
      {label}
    </button>
  );
}

/** Stays at the log's end until somebody scrolls up, and again once that is reached. */
function useFollowing(box: { current: HTMLDivElement | null }) {
  const [follow, setFollow] = useState(true);
  const [content, setContent] = useState<HTMLDivElement | null>(null);
  const top = useRef(0);
  useLayoutEffect(() => {
    if (!follow || !content) return;
    // It grows with each entry, and when what is drawn for the first time is higher than it was taken for.
    const observer = new ResizeObserver(() => box.current!.scrollTo(0, box.current!.scrollHeight));
    observer.observe(content);
    return () => observer.disconnect();
  }, [follow, content]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current!;
    if (scrollTop + clientHeight >= scrollHeight - 4) setFollow(true);
    else if (scrollTop < top.current) setFollow(false);
    top.current = scrollTop;
  };
  return { follow, setFollow, scrolled, setContent };
}

/** Brings the next place that was found into view, or the one before. */
function next(box: HTMLElement | null, back: boolean): void {
  const marks = [...(box?.querySelectorAll("mark") ?? [])];
  const at = marks.findIndex((one) => one.classList.contains("current"));
  const to = marks.at((back ? (at < 0 ? -1 : at - 1) : at + 1) % marks.length);
  marks[at]?.classList.remove("current");
  to?.classList.add("current");
  to?.scrollIntoView({ block: "center" });
}

/** The step's title and which attempt it is. */
function titleOf(store: RunStore, executionId: string): string {
  const [, id, attempt] = /^task:(.*)#(\d+)$/s.exec(executionId) ?? [];
  const title = id && store.view!.specs.get(id)?.title;
  return title ? `${title} #${attempt}` : who(executionId);
}

function LogBlock({ block, words }: { block: Block; words: string }) {
  const { entry, text } = block;
  if (entry.kind === LogKind.CUT) return <p class="cut">… {text}</p>;
  const level = entry.level.toLowerCase().replace(/[^a-z]/g, "");
  return (
    <div class={entry.kind === LogKind.CHUNK ? "chunk" : `line level-${level}`}>
      <small title={moment(ms(entry.writtenTime))}>
        {moment(ms(entry.writtenTime)).slice(11)} <span class="writer">{who(entry.executionId)}</span>
        {entry.kind === LogKind.LINE && entry.level !== "INFO" && ` ${entry.level}`}
      </small>
      <pre>
        {words
          ? split(text, words).map((part, at) =>
              at % 2 ? (
                <mark key={at}>
                  <Foreign text={part} />
                </mark>
              ) : (
                <Foreign key={at} text={part} />
              ),
            )
          : <Foreign text={text} />}
      </pre>
    </div>
  );
}
