// The page's address: what it shows is always in it, so that every view has a link.
import { options, type VNode } from "preact";
import { Value, useValue } from "./store.ts";

/** The path below which a proxy serves the console, such as `/stepwell`; else empty. The page's script lies in its `/assets`. */
export const BASE = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

export interface Route {
  path: string[];
  query: URLSearchParams;
}

function read(): Route {
  const path = location.pathname.slice(BASE.length).split("/").filter(Boolean).map(decoded);
  return { path, query: new URLSearchParams(location.search) };
}

/** A part of the path as text; one that is no encoded text stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const route = new Value(read());

export function useRoute(): Route {
  return useValue(route);
}

/** Goes to another address of the console, which begins with a slash and not with the base. */
export function navigate(to: string, replace = false): void {
  go(BASE + to, replace);
}

function go(to: string, replace: boolean): void {
  if (to === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  const before = route.get();
  route.set(read());
  if (before.path.join("/") !== route.get().path.join("/")) scrollTo(0, 0);
}

/** Goes to the same path with some parameters of the query changed; an empty one is taken out. */
export function setQuery(changes: Record<string, string>, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), replace);
}

/** The address of the page that compares two runs. */
export function comparePath(first: string, second: string): string {
  return `/compare/${encodeURIComponent(first)}/${encodeURIComponent(second)}`;
}

/** The address of a run's page. */
export function runPath(runId: string, tab = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `/runs/${encodeURIComponent(runId)}${tab ? `/${tab}` : ""}${search ? `?${search}` : ""}`;
}

// Links and pictures are written as if the console had the host for itself.
options.vnode = ({ type, props }: VNode) => {
  const name = type === "a" ? "href" : type === "img" ? "src" : "";
  const given = props as Record<string, unknown>;
  const to = name && given[name];
  if (BASE && typeof to === "string" && to.startsWith("/")) given[name] = BASE + to;
};

// A relative reference would lead elsewhere after each change of the address, at which the browser loads the icon again.
document.querySelector<HTMLLinkElement>("link[rel=icon]")!.href = `${BASE}/assets/icon.svg`;

addEventListener("popstate", () => route.set(read()));

// Links within the console change the page without loading it again.
document.addEventListener("click", (event) => {
  // Links of the graph are SVG's, which have no `origin`.
  const link = (event.target as Element | null)?.closest("a");
  const to = link?.getAttribute("href");
  if (!link || !to || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(to, location.href);
  if (link.hasAttribute("target") || link.hasAttribute("download")) return;
  if (url.origin !== location.origin) return;
  event.preventDefault();
  go(url.pathname + url.search, false);
});
