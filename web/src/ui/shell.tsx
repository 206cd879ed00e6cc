// The frame of every page: navigation, the state of the feed, and the signed-in user.
import {
  lazy,
  type ReactNode,
  Suspense,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { logOut } from "../api/call";
import { useRead } from "../api/hooks";
import { feed } from "../live/feed";
import { go, Link, usePath } from "../router";
import { plain } from "../text";
import { Emblem } from "./emblem";
import { Icon } from "./icon";
import { type KeyHelp, useKeyHelp, useKeys } from "./keys";
import { NotificationSwitch } from "./notifications";
import { Palette } from "./palette";
import type { Entry } from "./palette_match";
import { useRevealCurrent } from "./reveal";
import { useTheme } from "./theme";
import { say, Toast } from "./toast";
import { useNow } from "./when";

// Loaded when it is opened. The palette is not: what is typed while it loads would be keys of the page.
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
  const places = useRef<HTMLElement>(null);
  useRevealCurrent(places, path);
  const [open, setOpen] = useState<Opened>(null);
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
        <nav aria-label="Pages" ref={places}>
          {PLACES.map(([to, name, icon]) => (
            <Link key={to} to={to} aria-current={isAt(path, to) ? "page" : undefined}>
              <Icon name={icon} />
              <span>{name}</span>
              {to === "/" && waiting > 0 && (
                <span className="count">
                  {waiting.toLocaleString("en")}
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
        <button type="button" className="find" onClick={() => setOpen("palette")}>
          <Icon name="search" />
          <span>Search</span>
          <span className="find-keys" aria-hidden="true">
            <kbd>ctrl</kbd> <kbd>k</kbd>
          </span>
        </button>
        <Toast />
        <Who onLeave={onLeave} />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Connection />
        {children}
      </main>
      <Everywhere open={open} setOpen={setOpen} onLeave={onLeave} />
    </div>
  );
}

function isAt(path: string, place: string): boolean {
  if (place === "/") return path === "/" || path.startsWith("/inbox");
  if (place === "/board" && path.startsWith("/tasks")) return true;
  return path.startsWith(place);
}

type Opened = "palette" | "keys" | null;

interface EverywhereProps {
  open: Opened;
  setOpen: (change: Opened | ((now: Opened) => Opened)) => void;
  onLeave: () => Promise<void>;
}

/** The command palette and the list of keys, which open on every page. */
function Everywhere({ open, setOpen, onLeave }: EverywhereProps) {
  const [, toggleTheme] = useTheme();
  useKeys({ "?": () => setOpen("keys"), c: () => go("/new") }, [], true);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      // Escape leaves a list of choices, so that the keys of the page work again.
      if (event.key === "Escape" && event.target instanceof HTMLSelectElement) event.target.blur();
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      if (!document.querySelector("dialog[open]")) setOpen("palette");
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [setOpen]);
  // The palette closes after the list of keys was opened from it.
  const close = (which: "palette" | "keys") => () => setOpen((now) => (now === which ? null : now));
  const entries: Entry[] = [
    { key: "new", name: "New task", kind: "action", words: "create submit", act: () => go("/new") },
    ...PLACES.map(([to, name]) => ({ key: to, name, kind: "page", act: () => go(to) })),
    ...actionsOf(useKeyHelp()),
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

/** What single keys of the open page do, as entries of the palette. */
function actionsOf(help: KeyHelp): Entry[] {
  return help
    .filter(([key]) => key.length === 1)
    .map(([key, does]) => ({
      key: `key ${key}`,
      name: `${does[0]!.toUpperCase()}${does.slice(1)}`,
      kind: "action",
      note: key,
      act: () => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })),
    }));
}

async function signOut(onLeave: () => Promise<void>): Promise<void> {
  await onLeave();
  await logOut().catch(() => undefined);
  location.assign("/");
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
