// Notifications of the browser about new inbox items, if the user has switched them on.
import { useEffect, useRef, useSyncExternalStore } from "react";
import { go } from "../router";
import { plural } from "../text";
import { Icon } from "./icon";
import { say } from "./toast";

const KEY = "detent.notifications";
const watchers = new Set<() => void>();

function isOn(): boolean {
  const allowed = "Notification" in window && Notification.permission === "granted";
  return allowed && localStorage.getItem(KEY) === "on";
}

function useOn(): boolean {
  return useSyncExternalStore((watcher) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  }, isOn);
}

async function toggle(): Promise<void> {
  if (isOn()) localStorage.removeItem(KEY);
  else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(KEY, "on");
  else say("The browser does not allow notifications. Allow them in its settings.", { bad: true });
  for (const each of watchers) each();
}

/** Notify about items that arrive while the page is not visible. `count` is the server's, so that
 * an item whose decision was refused is not a new one; undefined until it is known. */
export function useNotifications(count: number | undefined): void {
  const before = useRef(count);
  useEffect(() => {
    if (count === undefined) return;
    const more = before.current !== undefined && count > before.current;
    before.current = count;
    if (more && document.hidden && isOn()) notify(count);
  }, [count]);
}

function notify(count: number): void {
  try {
    const shown = new Notification("detent", {
      body: `${plural(count, "item")} waiting for you`,
      tag: "detent-inbox",
    });
    shown.onclick = () => {
      window.focus();
      go("/");
    };
  } catch {
    // Chrome for Android has the constructor and throws: only a service worker may notify there.
  }
}

export function NotificationSwitch() {
  const on = useOn();
  if (!("Notification" in window)) return null;
  return (
    <button
      type="button"
      className="icon-button"
      aria-pressed={on}
      aria-label="Browser notifications"
      title={on ? "Browser notifications are on" : "Browser notifications are off"}
      onClick={() => void toggle()}
    >
      <Icon name={on ? "bell" : "bell_off"} />
    </button>
  );
}
