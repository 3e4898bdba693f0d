// How bytes of a media type can be looked at.
import { type Json, JsonError, parse, textOf } from "./json.ts";
import { isMarkdown } from "./markdown.ts";
import { csv, type Table, tableOf } from "./table.ts";
import { decode } from "./text.ts";

export type ViewName = "Picture" | "Text" | "Table" | "Tree" | "Raw";

/** What there is to look at. The first name is what is shown at first. */
export interface Media {
  names: ViewName[];
  text: string | undefined;
  json?: Json;
  /** Why a text that is called JSON is none. */
  fault?: string;
  /** A text to be shown as Markdown. */
  markdown?: string;
  table?: Table;
}

const PICTURES = /^image\/(png|jpeg|gif|webp|bmp|avif)$/;
const MARKDOWN_MAX = 65_536;

/** The type without its parameters. */
export function essence(type: string): string {
  return type.toLowerCase().split(";")[0]!.trim();
}

export function isJsonType(type: string): boolean {
  return essence(type) === "application/json" || essence(type).endsWith("+json");
}

/** Returns how a payload can be looked at. */
export function mediaOf(data: Uint8Array, type: string): Media {
  const kind = essence(type);
  const text = decode(data);
  if (PICTURES.test(kind)) return { names: ["Picture", "Raw"], text };
  if (text === undefined) return { names: ["Raw"], text };
  return isJsonType(type) ? jsonOf(text) : textMedia(text, kind);
}

/** Returns how a text without a type can be looked at: as JSON where it is a list or an object, else as Markdown or as it is. */
export function textMediaOf(text: string): Media {
  const media = /^\s*[[{]/.test(text) ? jsonOf(text) : undefined;
  return media?.json ? media : textMedia(text, "text/plain");
}

function textMedia(text: string, kind: string): Media {
  if (kind === "text/csv") return { names: ["Table", "Raw"], text, table: csv(text) };
  const isShown = kind === "text/markdown" || (kind === "text/plain" && isMarkdown(text));
  return isShown && text.length <= MARKDOWN_MAX ? { names: ["Text", "Raw"], text, markdown: text } : { names: ["Raw"], text };
}

function jsonOf(text: string): Media {
  let json: Json;
  try {
    json = parse(text);
  } catch (error) {
    if (error instanceof JsonError) return { names: ["Raw"], text, fault: error.message };
    throw error;
  }
  const table = tableOf(json);
  if (table) return { names: ["Table", "Tree", "Raw"], text, json, table };
  // What an agent writes as a text of several lines is read as a text.
  const inner = textOf(json) ?? "";
  const isShown = inner.length <= MARKDOWN_MAX && (inner.trim().includes("\n") || isMarkdown(inner));
  return isShown ? { names: ["Text", "Tree", "Raw"], text, json, markdown: inner } : { names: ["Tree", "Raw"], text, json };
}

const PIXELS_MAX = 16_000_000;

/** Whether a picture says of itself that it is small enough to be drawn unasked. */
export function isSmallPicture(data: Uint8Array): boolean {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const fits = (width: number, height: number) => width * height <= PIXELS_MAX;
  try {
    if (view.getUint32(0) === 0x89504e47) return fits(view.getUint32(16), view.getUint32(20));
    if (view.getUint32(0) === 0x47494638) return fits(view.getUint16(6, true), view.getUint16(8, true));
    if (view.getUint16(0) !== 0xffd8) return false;
    for (let at = 2; ; at += 2 + view.getUint16(at + 2)) {
      const marker = view.getUint8(at + 1);
      // The frame's header; the others of that row are tables.
      if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) return fits(view.getUint16(at + 7), view.getUint16(at + 5));
    }
  } catch {
    return false;
  }
}
