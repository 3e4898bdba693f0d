// The session: how a person logs in, and the key that every request carries. The key is kept in
// localStorage, which belongs to the page's host and port; a cookie would be shown to other ports.
import { BASE } from "../ui/router.ts";
import { Value } from "../ui/store.ts";

export interface Session {
  key: string;
  expires: string;
  tenant: string;
  subject: string;
  scopes: string[];
}

const NAME = `stepwell.session${BASE}`;

function read(): Session | undefined {
  try {
    const text = localStorage.getItem(NAME);
    if (!text) return undefined;
    const session = JSON.parse(text) as Session;
    return Date.parse(session.expires) > Date.now() ? session : undefined;
  } catch {
    return undefined;
  }
}

export const session = new Value<Session | undefined>(read());

function keep(next: Session): void {
  localStorage.setItem(NAME, JSON.stringify(next));
  session.set(next);
}

/** Forgets the key, on this page and, by its storage event, on other pages of this browser. */
export function logOut(): void {
  localStorage.removeItem(NAME);
  session.set(undefined);
}

async function exchange(init: RequestInit): Promise<void> {
  const response = await fetch(`${BASE}/session`, { method: "POST", ...init });
  if (!response.ok) {
    const refused = response.status === 401 || response.status === 403;
    throw new Error(refused ? "refused" : `the server answered ${response.status}`);
  }
  keep((await response.json()) as Session);
}

/** Exchanges a one-use code for a key. */
export function logInByCode(code: string): Promise<void> {
  return exchange({
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
}

/** Exchanges a token for a key. */
export function logInByToken(token: string): Promise<void> {
  return exchange({ headers: { Authorization: `Bearer ${token}` } });
}

/** Takes the code out of the URL's fragment, so that it stays in no history; "" where there is none. */
export function takeCode(): string {
  const code = new URLSearchParams(location.hash.slice(1)).get("code") ?? "";
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Whether the session may do what a scope allows. */
export function may(scope: string): boolean {
  return session.get()?.scopes.includes(scope) ?? false;
}

addEventListener("storage", (event) => {
  if (event.key === NAME || event.key === null) session.set(read());
});
