// Bytes of the user's, by their media type: Markdown, a tree of JSON, a table or a picture, raw on demand, and the rest as a
// download. Nothing of it ever becomes a part of the page's own document.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Payload } from "../gen/stepwell/v1/types_pb.ts";
import { foldedFor, type Json, type Line, print } from "../model/json.ts";
import { isJsonType, isSmallPicture, type Media, mediaOf, textMediaOf } from "../model/media.ts";
import { bytes, number } from "../model/text.ts";
import { Foreign } from "./foreign.tsx";
import { MarkdownView } from "./markdown.tsx";
import { Copy } from "./parts.tsx";
import { saveAs } from "./save.ts";
import { TableView } from "./table.tsx";

const LINES_MAX = 400;
/** A tree is opened at first as far as it fits into so many lines. */
const OPEN_LINES_MAX = 120;
/** What is larger is shown when it is asked for. */
const SHOWN_MAX = 256 * 1_024;
const HEX_MAX = 256;

export function PayloadView({ payload, name }: { payload: Payload; name: string }) {
  const { data } = payload;
  const [asked, setAsked] = useState(data.length <= SHOWN_MAX);
  const type = payload.mediaType ?? "application/json";
  const media = useMemo(() => (asked ? mediaOf(data, type) : undefined), [data, type, asked]);
  const tools = (
    <>
      <span>{type}</span>
      <span>{bytes(data.length)}</span>
      {media?.text !== undefined && <Copy text={media.text} label="Copy" />}
      <Download data={data} type={type} name={name} />
    </>
  );
  if (media) return <MediaView media={media} data={data} type={type} tools={tools} />;
  return (
    <div class="payload">
      <div class="row quiet">{tools}</div>
      <button type="button" onClick={() => setAsked(true)}>
        Show {bytes(data.length)}
      </button>
    </div>
  );
}

/** A text of the user's that has no type: JSON, Markdown, or as it is. */
export function TextView({ text }: { text: string }) {
  const media = useMemo(() => textMediaOf(text), [text]);
  return <MediaView media={media} data={undefined} type="" tools={undefined} />;
}

interface MediaProps {
  media: Media;
  data: Uint8Array | undefined;
  type: string;
  tools: preact.ComponentChildren;
}

function MediaView({ media, data, type, tools }: MediaProps) {
  const [chosen, setChosen] = useState(media.names[0]!);
  const shown = media.names.includes(chosen) ? chosen : media.names[0]!;
  const { names, text, json } = media;
  return (
    <div class="payload">
      {(tools || names.length > 1) && (
        <div class="row quiet">
          {tools}
          {names.length > 1 && (
            <span class="views" role="group" aria-label="Show as">
              {names.map((one) => (
                <button key={one} type="button" class="small chip" aria-pressed={one === shown} onClick={() => setChosen(one)}>
                  {one}
                </button>
              ))}
            </span>
          )}
        </div>
      )}
      {media.fault && <p class="quiet">It is called JSON and is none. {media.fault}.</p>}
      {shown === "Picture" ? (
        <Picture data={data!} type={type} />
      ) : shown === "Table" ? (
        <TableView head={media.table!.head.map(foreign)} rows={media.table!.rows.map((row) => row.map(foreign))} />
      ) : shown === "Text" ? (
        <MarkdownView text={media.markdown!} />
      ) : shown === "Tree" ? (
        <JsonTree json={json!} />
      ) : text === undefined ? (
        <pre class="plain">{hex(data!)}</pre>
      ) : (
        <PlainText text={text} />
      )}
    </div>
  );
}

function foreign(text: string) {
  return <Foreign text={text} />;
}

/** The first bytes, sixteen in a line. */
function hex(data: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(data.length, HEX_MAX); at += 16) {
    const part = [...data.subarray(at, at + 16)].map((one) => one.toString(16).padStart(2, "0"));
    lines.push(`${at.toString(16).padStart(4, "0")}  ${part.join(" ")}`);
  }
  if (data.length > HEX_MAX) lines.push("…");
  return lines.join("\n");
}

export function PlainText({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const lines = useMemo(() => text.split("\n"), [text]);
  const cut = !all && lines.length > LINES_MAX;
  return (
    <>
      <pre class="plain">
        <Foreign text={cut ? lines.slice(0, LINES_MAX).join("\n") : text} />
      </pre>
      {cut && <All lines={lines.length} show={() => setAll(true)} />}
    </>
  );
}

function All({ lines, show }: { lines: number; show: () => void }) {
  return (
    <button type="button" class="small" onClick={show}>
      Show all {number(lines)} lines
    </button>
  );
}

function JsonTree({ json }: { json: Json }) {
  const [all, setAll] = useState(false);
  const [folded, setFolded] = useState(() => foldedFor(json, OPEN_LINES_MAX));
  const lines = useMemo(() => print(json, folded), [json, folded]);
  const toggle = (node: number) => {
    const next = new Set(folded);
    if (!next.delete(node)) next.add(node);
    setFolded(next);
  };
  const cut = !all && lines.length > LINES_MAX;
  return (
    <>
      {lines.some((one) => one.node) && (
        <div class="row">
          <button type="button" class="small" disabled={!folded.size} onClick={() => setFolded(new Set())}>
            Unfold all
          </button>
          <button type="button" class="small" onClick={() => setFolded(foldedFor(json, 0))}>
            Fold all
          </button>
        </div>
      )}
      <pre class="json" tabIndex={0}>
        {(cut ? lines.slice(0, LINES_MAX) : lines).map((line, at) => (
          <JsonLine key={at} line={line} toggle={toggle} />
        ))}
      </pre>
      {cut && <All lines={lines.length} show={() => setAll(true)} />}
    </>
  );
}

function JsonLine({ line, toggle }: { line: Line; toggle: (node: number) => void }) {
  const { node, folded = false } = line;
  return (
    <>
      {"  ".repeat(line.depth)}
      {node ? (
        <button type="button" class="fold" aria-expanded={!folded} aria-label={folded ? "Unfold" : "Fold"} onClick={() => toggle(node)} />
      ) : null}
      {line.tokens.map((one) => (
        <span class={`json-${one.kind}`}>
          {one.kind === "string" || one.kind === "key" ? <Foreign text={one.text} /> : one.text}
        </span>
      ))}
      {"\n"}
    </>
  );
}

/** A picture on a canvas: its bytes are no document, and no address. */
function Picture({ data, type }: { data: Uint8Array; type: string }) {
  const [asked, setAsked] = useState(() => isSmallPicture(data));
  const [fault, setFault] = useState(false);
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!asked) return;
    const blob = new Blob([data as Uint8Array<ArrayBuffer>], { type });
    createImageBitmap(blob).then(
      (picture) => {
        const element = canvas.current;
        if (!element) return;
        element.width = picture.width;
        element.height = picture.height;
        element.getContext("bitmaprenderer")!.transferFromImageBitmap(picture);
      },
      () => setFault(true),
    );
  }, [data, asked]);
  if (fault) return <p class="quiet">This browser can't read it as {type}.</p>;
  if (!asked) {
    return (
      <button type="button" onClick={() => setAsked(true)}>
        Show the picture
      </button>
    );
  }
  return <canvas class="picture" ref={canvas} role="img" aria-label={`A picture, ${type}`} />;
}

/** Saves bytes as a file. Its type says that no browser is to show it. */
function Download({ data, type, name }: { data: Uint8Array; type: string; name: string }) {
  const save = () => saveAs(data, `${name}${isJsonType(type) ? ".json" : ""}`);
  return (
    <button type="button" class="small" onClick={save}>
      Download
    </button>
  );
}
