// Calls operations of the gateway by name. The only module that sends requests.
import { type Operations, ROUTES } from "./schema";

export type Name = keyof Operations;
export type Takes<N extends Name> = Operations[N]["takes"];
export type Answers<N extends Name> = Operations[N]["answers"];

/** What went wrong, and what to do now: the gateway's problem document, or our own words. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly details: Record<string, unknown>;

  constructor(status: number, code: string, detail: string, hint: string, details = {}) {
    super(detail);
    this.status = status;
    this.code = code;
    this.hint = hint;
    this.details = details;
  }
}

const unreachable = (isRead: boolean) =>
  new Problem(
    0,
    "unreachable",
    "The gateway does not answer.",
    isRead
      ? "Check that `detent up` is running. This page retries automatically."
      : "Check that `detent up` is running, then try again.",
  );

/** Whether nothing is known of the request, because the gateway does not answer. */
export const isUnreachable = (problem: unknown): boolean =>
  problem instanceof Problem && problem.status === 0;

const listeners = new Set<() => void>();

/** Set the function that is called when the session has ended. */
export function onSignedOut(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function address(
  name: Name,
  takes: Record<string, unknown>,
): { url: string; rest: Record<string, unknown> } {
  const rest = { ...takes };
  const url = ROUTES[name][1].replace(/\{(\w+)\}/g, (_, key: string) => {
    const value = rest[key];
    delete rest[key];
    return encodeURIComponent(String(value));
  });
  return { url, rest };
}

function query(rest: Record<string, unknown>): string {
  const given = Object.entries(rest).filter(([, value]) => value != null && value !== "");
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}

export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...init });
  } catch {
    throw unreachable((init.method ?? "GET") === "GET");
  }
  if (!response.ok) throw await problem(response);
  return response;
}

async function problem(response: Response): Promise<Problem> {
  if (response.status === 401) for (const listener of listeners) listener();
  try {
    const { detail, code, hint, ...details } = await response.json();
    return new Problem(response.status, code, detail, hint ?? "", details);
  } catch {
    return new Problem(
      response.status,
      "internal",
      `The gateway answered with ${response.status}.`,
      "Try again. If the error persists, check the log of `detent up`.",
    );
  }
}

/** The bytes of a request that may outlive the page; a browser refuses more than 64 KiB. */
const MAX_OUTLIVING = 60_000;

/** Ask for one operation. With `leaving` the request is sent even if the page is closed, unless it
 * is too large for that. */
export async function call<N extends Name>(
  name: N,
  takes: Takes<N>,
  leaving = false,
): Promise<Answers<N>> {
  const method = ROUTES[name][0];
  const { url, rest } = address(name, takes as Record<string, unknown>);
  if (method === "GET" || method === "DELETE") {
    return (await request(url + query(rest), { method, keepalive: leaving })).json();
  }
  const body = Object.keys(rest).length
    ? { body: JSON.stringify(rest), headers: { "Content-Type": "application/json" } }
    : {};
  const keepalive = leaving && new Blob([body.body ?? ""]).size < MAX_OUTLIVING;
  return (await request(url, { method, keepalive, ...body })).json();
}

/** The name of the provider through which people sign in; null if the gateway has none. */
export async function signInProvider(): Promise<string | null> {
  const methods: { oidc: string | null } = await (await request("/api/login/methods")).json();
  return methods.oidc;
}

/** Exchange the code of a one-time link for a session's cookie. */
export async function logIn(code: string): Promise<void> {
  await request("/api/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
}

export async function logOut(): Promise<void> {
  await request("/api/logout", { method: "POST" });
}
