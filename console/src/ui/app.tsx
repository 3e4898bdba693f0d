// The frame around all pages: login, navigation, the sign that the server is away, and the keys.
import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { countQuestions, openQuestions, QUESTIONS_MAX } from "../api/badge.ts";
import { away } from "../api/client.ts";
import { logInByCode, logOut, session, takeCode } from "../api/session.ts";
import { span } from "../model/text.ts";
import { ComparePage } from "../pages/compare.tsx";
import { ForkPage } from "../pages/fork.tsx";
import { InboxPage } from "../pages/inbox.tsx";
import { LoginPage } from "../pages/login.tsx";
import { RunPage } from "../pages/run.tsx";
import { RunsPage } from "../pages/runs.tsx";
import { ServicePage } from "../pages/service.tsx";
import { StartPage } from "../pages/start.tsx";
import { useKeys } from "./keyboard.ts";
import { absoluteTimes, Empty, useNow } from "./parts.tsx";
import { navigate, useRoute } from "./router.ts";
import { useValue } from "./store.ts";

const PAGES = [
  { path: "runs", title: "Runs", key: "r" },
  { path: "inbox", title: "Inbox", key: "i" },
  { path: "start", title: "Start", key: "s" },
  { path: "service", title: "Service", key: "v" },
];

const KEYS: [key: string, does: string][] = [
  ["/", "Search"],
  ["j, k", "Next row, previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Close what is open"],
  ["1 … 9", "The tabs of a run"],
  ["+, −, 0", "Graph and timeline: larger, smaller, all of it"],
  ["Arrows", "Graph: along edges. Timeline: earlier, later"],
  ["t", "Times: how long ago, or exact"],
  ...PAGES.map((one): [string, string] => [one.key, one.title]),
  ["?", "This list"],
];

const code = takeCode();

export function App() {
  const current = useValue(session);
  const { path } = useRoute();
  const [state, setState] = useState<"exchanging" | "refused" | "ready">(
    code ? "exchanging" : "ready",
  );
  useEffect(() => {
    if (!code) return;
    logInByCode(code).then(
      () => setState("ready"),
      () => setState("refused"),
    );
  }, []);
  if (state === "exchanging") return <Empty>Logging in …</Empty>;
  if (!current) return <LoginPage codeRefused={state === "refused"} />;
  return (
    // Another tenant's or person's session begins with nothing of the one before.
    <Shell key={`${current.tenant}/${current.subject}`}>
      <Guard key={path.slice(0, 2).join("/")}>
        <Page />
      </Guard>
    </Shell>
  );
}

/** Shows an error of the page itself in the place of what it broke; another page begins anew. */
class Guard extends Component<{ children: ComponentChildren }, { message: string }> {
  override state = { message: "" };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ message: error instanceof Error ? error.message : String(error) });
  }

  override render() {
    if (!this.state.message) return this.props.children;
    return (
      <p class="problem" role="alert">
        This view can't be shown: {this.state.message}. The other ones can; this is a fault of the console.
      </p>
    );
  }
}

function Page() {
  const { path } = useRoute();
  const [page = "runs", first = "", second = ""] = path;
  useEffect(() => {
    if (!path.length) navigate("/runs", true);
  }, [path.length]);
  if (page === "runs" && first && second === "fork") return <ForkPage key={first} runId={first} />;
  if (page === "runs" && first) return <RunPage key={first} runId={first} tab={second} />;
  if (page === "runs") return <RunsPage />;
  if (page === "compare") return <ComparePage first={first} second={second} />;
  if (page === "inbox") return <InboxPage />;
  if (page === "start") return <StartPage />;
  if (page === "service") return <ServicePage />;
  return <Empty>There is no such page. The list of runs is at /runs.</Empty>;
}

function Shell({ children }: { children: ComponentChildren }) {
  const { path } = useRoute();
  const [help, setHelp] = useState(false);
  const current = useValue(session);
  const jumps = Object.fromEntries(PAGES.map((one) => [one.key, () => navigate(`/${one.path}`)]));
  useKeys({
    ...jumps,
    "?": () => setHelp(true),
    t: () => absoluteTimes.set(!absoluteTimes.get()),
  });
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        To the content
      </a>
      <header class="top">
        <a href="/runs" class="brand">
          <img src="/assets/icon.svg" alt="" width="22" height="22" /> Stepwell
        </a>
        <nav aria-label="Pages">
          {PAGES.map((one) => (
            <a
              key={one.path}
              href={`/${one.path}`}
              aria-current={(path[0] ?? "runs") === one.path ? "page" : undefined}
            >
              {one.title}
              {one.path === "inbox" && <Badge />}
            </a>
          ))}
        </nav>
        <div class="who">
          <span title="Whose runs you see, and who you are">
            {current?.tenant} · {current?.subject}
          </span>
          <button type="button" class="small" onClick={() => setHelp(true)} aria-label="Keys">
            ?
          </button>
          <button type="button" class="small" onClick={logOut}>
            Log out
          </button>
        </div>
      </header>
      <AwayBanner />
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      {help && <Help close={() => setHelp(false)} />}
    </>
  );
}

/** How many questions wait for a person. */
function Badge() {
  useEffect(countQuestions, []);
  const waiting = useValue(openQuestions);
  if (!waiting) return null;
  const many = waiting >= QUESTIONS_MAX ? `${QUESTIONS_MAX - 1}+` : waiting;
  return (
    <span class="badge" title="Open questions">
      {many}
      <span class="hidden"> open questions</span>
    </span>
  );
}

function AwayBanner() {
  const since = useValue(away);
  const current = useNow();
  if (!since) return null;
  return (
    <div class="away" role="status">
      The server is away, for {span(current - since)}. What you see is as it was; the page goes on when it is
      back.
    </div>
  );
}

function Help({ close }: { close: () => void }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current!.showModal(), []);
  return (
    <dialog ref={element} onClose={close} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </dialog>
  );
}
