// The router: the address bar holds the whole state of navigation, so that every view has a link.
import {
  type AnchorHTMLAttributes,
  type MouseEvent,
  useCallback,
  useSyncExternalStore,
} from "react";

const moved = new Set<() => void>();
const tell = () => {
  for (const each of moved) each();
};

function subscribe(listener: () => void): () => void {
  moved.add(listener);
  addEventListener("popstate", listener);
  return () => {
    moved.delete(listener);
    removeEventListener("popstate", listener);
  };
}

export function go(to: string, how: { replace?: boolean } = {}): void {
  if (how.replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  tell();
}

export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname);
}

/** The query of the address, and how to change parts of it; an empty value removes its key. */
export function useSearch(): [
  URLSearchParams,
  (changes: Record<string, string | null | undefined>, how?: { replace?: boolean }) => void,
] {
  const text = useSyncExternalStore(subscribe, () => location.search);
  const change = useCallback(
    (
      changes: Record<string, string | null | undefined>,
      how: { replace?: boolean } = { replace: true },
    ) => {
      const search = new URLSearchParams(location.search);
      for (const [key, value] of Object.entries(changes)) {
        if (value) search.set(key, value);
        else search.delete(key);
      }
      const rest = search.toString();
      go(location.pathname + (rest ? `?${rest}` : ""), how);
    },
    [],
  );
  return [new URLSearchParams(text), change];
}

/** The parameters of a path by a pattern such as `/tasks/:id`; null if it does not fit. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.replace(/\/+$/, "").split("/");
  if (path === "/") given.length = 1;
  const found: Record<string, string> = {};
  const least = wanted.filter((part) => !part.endsWith("?")).length;
  if (given.length > wanted.length || given.length < least) return null;
  for (const [at, part] of wanted.entries()) {
    const value = given[at];
    if (part.startsWith(":")) {
      if (value) found[part.slice(1).replace("?", "")] = decoded(value);
    } else if (part !== value) return null;
  }
  return found;
}

/** The text without percent encoding; as it is if it is not encoded correctly. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

type Anchor = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string };

/** A real link that does not load the page again. */
export function Link({ to, onClick, ...rest }: Anchor) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const plain = !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || event.button !== 0 || !plain) return;
    event.preventDefault();
    go(to);
  };
  return <a href={to} onClick={follow} {...rest} />;
}

export const linkTo = {
  task: (id: string, tab = "") => `/tasks/${encodeURIComponent(id)}${tab && `/${tab}`}`,
  job: (id: string) => `/jobs/${encodeURIComponent(id)}`,
  run: (id: string) => `/runs/${encodeURIComponent(id)}`,
  lifecycle: (id: string) => `/lifecycles/${encodeURIComponent(id)}`,
};
