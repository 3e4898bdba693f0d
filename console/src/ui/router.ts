// The page's address: what it shows is always in it, so that every view has a link.
import { Value, useValue } from "./store.ts";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

function read(): Route {
  const path = location.pathname.split("/").filter(Boolean).map(decoded);
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

/** Goes to another address of the console. */
export function navigate(to: string, replace = false): void {
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
  navigate(location.pathname + (text ? `?${text}` : ""), replace);
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
  navigate(url.pathname + url.search);
});
