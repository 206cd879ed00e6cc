// Throttling: the first call is immediate, later ones at most once per interval, the last is kept.

export interface Throttled {
  call: () => void;
  cancel: () => void;
}

export function throttled(act: () => void, everyMs: number): Throttled {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = Number.NEGATIVE_INFINITY;
  const run = () => {
    timer = undefined;
    last = Date.now();
    act();
  };
  return {
    call() {
      if (timer !== undefined) return;
      timer = setTimeout(run, Math.max(0, last + everyMs - Date.now()));
    },
    cancel() {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
