// The frame of every page: navigation, the state of the feed, and the signed-in user.
import {
  type FormEvent,
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { call, logOut, type Problem } from "../api/call";
import { useRead } from "../api/hooks";
import { feed } from "../live/feed";
import { go, Link, linkTo, usePath } from "../router";
import { plain } from "../text";
import { Emblem } from "./emblem";
import { Icon } from "./icon";
import { useKeys } from "./keys";
import { NotificationSwitch } from "./notifications";
import type { Entry } from "./palette_match";
import { useTheme } from "./theme";
import { say, Toast } from "./toast";
import { useNow } from "./when";

// Loaded when they are opened.
const Palette = lazy(async () => ({ default: (await import("./palette")).Palette }));
const KeyList = lazy(async () => ({ default: (await import("./key_list")).KeyList }));

const PLACES = [
  ["/", "Inbox", "inbox"],
  ["/board", "Board", "board"],
  ["/jobs", "Jobs", "jobs"],
  ["/runs", "Runs", "runs"],
  ["/workers", "Workers", "workers"],
  ["/schedules", "Schedules", "schedules"],
  ["/access", "Access", "access"],
  ["/system", "Health", "health"],
  ["/lifecycles", "Lifecycles", "lifecycles"],
] as const;

interface Props {
  /** How many items wait in the inbox. */
  waiting: number;
  /** Called before the session ends. */
  onLeave: () => Promise<void>;
  children: ReactNode;
}

export function Shell({ waiting, onLeave, children }: Props) {
  const path = usePath();
  const main = useRef<HTMLElement>(null);
  // Screen readers start at the beginning of the new page.
  const first = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path is what it reacts to
  useEffect(() => {
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [path.split("/")[1]]);
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="side">
        <Link to="/" className="brand" aria-label="detent, to the inbox">
          <Emblem />
          detent
        </Link>
        <nav aria-label="Pages">
          {PLACES.map(([to, name, icon]) => (
            <Link key={to} to={to} aria-current={isAt(path, to) ? "page" : undefined}>
              <Icon name={icon} />
              <span>{name}</span>
              {to === "/" && waiting > 0 && (
                <span className="count">
                  {waiting}
                  <span className="unseen"> waiting</span>
                </span>
              )}
            </Link>
          ))}
        </nav>
        <Link to="/new" className="button new-link">
          <Icon name="add" />
          New task
        </Link>
        <Find />
        <Toast />
        <Who onLeave={onLeave} />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Connection />
        {children}
      </main>
      <Everywhere onLeave={onLeave} />
    </div>
  );
}

function isAt(path: string, place: string): boolean {
  if (place === "/") return path === "/" || path.startsWith("/inbox");
  if (place === "/board" && path.startsWith("/tasks")) return true;
  return path.startsWith(place);
}

/** The command palette and the list of keys, which open on every page. */
function Everywhere({ onLeave }: { onLeave: () => Promise<void> }) {
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  const [, toggleTheme] = useTheme();
  useKeys({ "?": () => setOpen("keys"), c: () => go("/new") }, [], true);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) setOpen("palette");
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  // The palette closes after the list of keys was opened from it.
  const close = (which: "palette" | "keys") => () => setOpen((now) => (now === which ? null : now));
  const entries: Entry[] = [
    { key: "new", name: "New task", kind: "action", words: "create submit", act: () => go("/new") },
    ...PLACES.map(([to, name]) => ({ key: to, name, kind: "page", act: () => go(to) })),
    { key: "keys", name: "Show the keys", kind: "action", act: () => setOpen("keys") },
    {
      key: "theme",
      name: "Switch the colours",
      kind: "action",
      words: "dark light theme",
      act: toggleTheme,
    },
    { key: "leave", name: "Sign out", kind: "action", act: () => void signOut(onLeave) },
  ];
  return (
    <Suspense>
      {open === "palette" && <Palette entries={entries} onClose={close("palette")} />}
      {open === "keys" && <KeyList onClose={close("keys")} />}
    </Suspense>
  );
}

async function signOut(onLeave: () => Promise<void>): Promise<void> {
  await onLeave();
  await logOut().catch(() => undefined);
  location.assign("/");
}

const BAD = { bad: true };

/** What an id belongs to, also if it is shortened to its first or last characters. */
function kindOf(id: string): "task" | "job" | "run" {
  if (/-r\d+$/.test(id)) return "run";
  return /-j\d+$/.test(id) ? "job" : "task";
}

function Find() {
  const [text, setText] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const part = text.trim();
    if (!part) return;
    setText("");
    const kind = kindOf(part);
    call("find_ids", { part, kind }).then(
      ({ items }) => {
        if (items.length > 1) say(`Several ids match ${plain(part)}: give more of it.`, BAD);
        else go(linkTo[kind](items[0] ?? part));
      },
      (problem: Problem) => say(plain(problem.message), BAD),
    );
  };
  return (
    <form className="find" role="search" onSubmit={submit}>
      <Icon name="search" />
      <input
        type="search"
        value={text}
        onChange={(event) => setText(event.target.value)}
        placeholder="Go to an id"
        aria-label="Go to the task, job or run with this id"
      />
    </form>
  );
}

function Who({ onLeave }: { onLeave: () => Promise<void> }) {
  const me = useRead("show_me", {}, { fixed: true }).data;
  const [theme, toggle] = useTheme();
  return (
    <div className="who">
      <Live />
      <NotificationSwitch />
      <button
        type="button"
        className="icon-button"
        onClick={toggle}
        aria-label={theme === "dark" ? "Switch to light colours" : "Switch to dark colours"}
      >
        <Icon name={theme === "dark" ? "sun" : "moon"} />
      </button>
      <button
        type="button"
        className="icon-button"
        onClick={() => void signOut(onLeave)}
        aria-label={`Sign out${me ? ` (${plain(me.name)})` : ""}`}
        title={me && `Signed in as ${plain(me.name)}: ${me.scopes.join(", ")}`}
      >
        <Icon name="leave" />
      </button>
    </div>
  );
}

function Live() {
  const status = useSyncExternalStore(feed.watch, feed.look);
  const live = status.kind === "live";
  return (
    <span className={`live ${live ? "on" : "off"}`} data-live={live}>
      <span className="live-dot" aria-hidden="true" />
      {live ? "Live" : "Not live"}
    </span>
  );
}

/** Says that the connection is lost and when it is tried again; and that it is back. */
function Connection() {
  const status = useSyncExternalStore(feed.watch, feed.look);
  const now = useNow();
  const announced = useRef(false);
  useEffect(() => {
    if (status.kind === "live" && status.regained && !announced.current) {
      say("Connected again. Everything shown is up to date.");
    }
    announced.current = status.kind === "live";
  }, [status]);
  if (status.kind !== "lost") return null;
  const wait = Math.max(0, Math.ceil((status.nextTry - now) / 1_000));
  return (
    <div className="lost" role="alert">
      <span>
        <strong>Connection lost.</strong> The page may be out of date. Reconnecting
        {wait ? ` in ${wait} s` : " now"}.
      </span>
      <button type="button" className="button small" onClick={feed.retry}>
        Try now
      </button>
    </div>
  );
}
