// Operations as React hooks: reads are cached by name and input, and writes invalidate them.
import {
  QueryClient,
  type QueryKey,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { type FeedEvent, feed } from "../live/feed";
import { throttled } from "../live/throttle";
import { type Answers, call, isUnreachable, type Name, Problem, type Takes } from "./call";

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (count, error) => count < 2 && error instanceof Problem && error.status >= 500,
      refetchOnWindowFocus: true,
    },
  },
});

interface Reading {
  enabled?: boolean;
  /** Ask again this often, for what no event announces. */
  everyMs?: number;
  /** Never changes while the page is open. */
  fixed?: boolean;
  /** The version that must be shown: another one is read again. */
  version?: number;
}

export function useRead<N extends Name>(name: N, takes: Takes<N>, how: Reading = {}) {
  return useQuery<Answers<N>, Problem>({
    queryKey: how.version === undefined ? [name, takes] : [name, takes, how.version],
    queryFn: ({ queryKey }) => orKept(queryKey, () => call(name, takes)),
    enabled: how.enabled ?? true,
    ...(how.fixed ? { staleTime: Number.POSITIVE_INFINITY } : {}),
    refetchInterval: how.everyMs ?? false,
    placeholderData: (before) => before,
  });
}

/** What was read last, if the gateway does not answer now: the frame of the page says that the
 * connection is lost, and everything is read again when it is back. */
export async function orKept<T>(queryKey: QueryKey, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (problem) {
    const kept = client.getQueryData<T>(queryKey);
    if (kept !== undefined && isUnreachable(problem)) return kept;
    throw problem;
  }
}

interface Callbacks {
  onSuccess?: () => void;
  onError?: (problem: Problem) => void;
}

/** A call that changes something. All queries are refreshed when it is done. `callbacks` get the
 * outcome even if the component has left the page. */
export function useVerb<N extends Name>(name: N, callbacks: Callbacks = {}) {
  const queries = useQueryClient();
  return useMutation<Answers<N>, Problem, Takes<N>>({
    mutationFn: (takes) => call(name, takes),
    onSettled: () => queries.invalidateQueries(),
    ...callbacks,
  });
}

/** Refresh some queries when an event concerns them, at most once per interval. */
export function useFresh(
  names: readonly Name[],
  concerns: (event: FeedEvent) => boolean,
  everyMs = 1_000,
) {
  const queries = useQueryClient();
  // A page that goes on to another task stays: what concerns it is that of the last render.
  const latest = useRef(concerns);
  latest.current = concerns;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the names are written inline by callers
  useEffect(() => {
    const again = throttled(() => {
      for (const name of names) void queries.invalidateQueries({ queryKey: [name] });
    }, everyMs);
    const leave = feed.subscribe((events) => {
      if (events.some((event) => latest.current(event))) again.call();
    });
    return () => {
      leave();
      again.cancel();
    };
  }, [queries, everyMs, names.join()]);
}
