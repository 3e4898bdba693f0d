// Bytes of the user's: JSON as it is written, text as text, and the rest as a download. Nothing of it ever becomes
// a part of the page's own document.
import { useMemo, useState } from "preact/hooks";
import type { Payload } from "../gen/stepwell/v1/types_pb.ts";
import { JsonError, type Line, parse, print } from "../model/json.ts";
import { bytes, decode } from "../model/text.ts";
import { Copy } from "./parts.tsx";

const LINES_MAX = 400;
/** What is larger is shown when it is asked for. */
const SHOWN_MAX = 256 * 1_024;
const HEX_MAX = 256;

export function PayloadView({ payload, name }: { payload: Payload; name: string }) {
  const { data } = payload;
  const [asked, setAsked] = useState(data.length <= SHOWN_MAX);
  const type = payload.mediaType ?? "application/json";
  const text = useMemo(() => (asked ? decode(data) : undefined), [data, asked]);
  return (
    <div class="payload">
      <div class="row quiet">
        <span>{type}</span>
        <span>{bytes(data.length)}</span>
        {text !== undefined && <Copy text={text} label="Copy" />}
        <Download data={data} type={type} name={name} />
      </div>
      {!asked ? (
        <button type="button" onClick={() => setAsked(true)}>
          Show {bytes(data.length)}
        </button>
      ) : (
        <Body text={text} data={data} type={type} />
      )}
    </div>
  );
}

function isJson(type: string): boolean {
  const [essence = ""] = type.toLowerCase().split(";");
  return essence.trim() === "application/json" || essence.trim().endsWith("+json");
}

function Body({ text, data, type }: { text: string | undefined; data: Uint8Array; type: string }) {
  if (text === undefined) return <pre class="plain">{hex(data)}</pre>;
  return isJson(type) ? <JsonText text={text} /> : <PlainText text={text} />;
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
      <pre class="plain">{cut ? lines.slice(0, LINES_MAX).join("\n") : text}</pre>
      {cut && <All lines={lines.length} show={() => setAll(true)} />}
    </>
  );
}

function All({ lines, show }: { lines: number; show: () => void }) {
  return (
    <button type="button" class="small" onClick={show}>
      Show all {lines.toLocaleString("en")} lines
    </button>
  );
}

export function JsonText({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const found = useMemo(() => {
    try {
      return { lines: print(parse(text)) };
    } catch (error) {
      if (error instanceof JsonError) return { fault: error.message };
      throw error;
    }
  }, [text]);
  if (found.lines === undefined) {
    return (
      <>
        <p class="quiet">It is called JSON and is none. {found.fault}.</p>
        <PlainText text={text} />
      </>
    );
  }
  const cut = !all && found.lines.length > LINES_MAX;
  const lines = cut ? found.lines.slice(0, LINES_MAX) : found.lines;
  return (
    <>
      <pre class="json">
        {lines.map((line) => (
          <JsonLine key={line} line={line} />
        ))}
      </pre>
      {cut && <All lines={found.lines.length} show={() => setAll(true)} />}
    </>
  );
}

function JsonLine({ line }: { line: Line }) {
  return (
    <>
      {"  ".repeat(line.depth)}
      {line.tokens.map((one) => (
        <span class={`json-${one.kind}`}>{one.text}</span>
      ))}
      {"\n"}
    </>
  );
}

/** Saves bytes as a file. Its type says that no browser is to show it. */
function Download({ data, type, name }: { data: Uint8Array; type: string; name: string }) {
  const save = () => {
    const blob = new Blob([data as Uint8Array<ArrayBuffer>], { type: "application/octet-stream" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${name.replace(/[^A-Za-z0-9._-]+/g, "-")}${isJson(type) ? ".json" : ""}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <button type="button" class="small" onClick={save}>
      Download
    </button>
  );
}
