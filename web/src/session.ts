// Whether the gateway knows this browser. A one-time link carries its code in the fragment, which
// no server sees; it is exchanged for a cookie immediately and removed from the address.
import { useEffect, useState } from "react";
import { call, isUnreachable, logIn, onSignedOut, Problem } from "./api/call";
import { decoded } from "./router";

export type Session =
  | { kind: "asking" }
  | { kind: "in" }
  | { kind: "out"; problem: Problem | null }
  | { kind: "unreachable"; problem: Problem };

/** How long to wait for a gateway that does not answer. */
const RETRY_MS = 3_000;

/** The code of a one-time link, or of a pasted text. */
export function codeFrom(text: string): string | null {
  const found = /#code=([^&\s]+)/.exec(text);
  if (found) return decoded(found[1]!);
  return /^detent_[\w-]+$/.test(text.trim()) ? text.trim() : null;
}

/** Why signing in through the provider has failed: the gateway adds the reason to the address. */
const REASONS: Record<string, [string, string]> = {
  "no-role": [
    "The provider knows you, but you have no role here.",
    "Ask an administrator of this gateway for a role.",
  ],
  unavailable: ["The provider does not answer.", "Try again in a minute."],
  misconfigured: [
    "The provider is not configured correctly.",
    "An administrator finds the reason in the log of the gateway.",
  ],
  failed: [
    "You are not signed in.",
    "Try again. An administrator finds the reason in the log of the gateway.",
  ],
};

function refusalFrom(hash: string): Problem | null {
  const found = /^#sign-in=([\w-]+)$/.exec(hash);
  if (!found) return null;
  const [detail, hint] = REASONS[found[1]!] ?? REASONS.failed!;
  return new Problem(403, "no_role", detail, hint);
}

export function useSession(): [Session, (code?: string) => void] {
  const [session, set] = useState<Session>({ kind: "asking" });
  const [round, setRound] = useState(() => ({ code: codeFrom(location.hash) }));
  useEffect(
    () =>
      onSignedOut(() => set((now) => (now.kind === "in" ? { kind: "out", problem: null } : now))),
    [],
  );
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const { code } = round;
    let unused = code;
    const refusal = refusalFrom(location.hash);
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    const enter = async () => {
      if (code) await logIn(code);
      unused = null;
      await call("show_me", {});
    };
    enter().then(
      () => set({ kind: "in" }),
      (problem: Problem) => {
        if (isUnreachable(problem)) {
          set({ kind: "unreachable", problem });
          timer = setTimeout(() => setRound({ code: unused }), RETRY_MS);
          return;
        }
        // Without a code the page explains how to sign in; nothing was refused.
        set({ kind: "out", problem: code || problem.status !== 401 ? problem : refusal });
      },
    );
    return () => clearTimeout(timer);
  }, [round]);
  return [session, (code) => setRound((last) => ({ code: code ?? last.code }))];
}
