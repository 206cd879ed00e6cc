// Formats times in the time zone of the browser, and durations in a short form.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function duration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 1_000) return `${Math.round(span)} ms`;
  if (span < 10_000) return `${(span / 1_000).toFixed(1)} s`;
  if (span < MINUTE) return `${Math.round(span / 1_000)} s`;
  if (span < HOUR) return two(span, MINUTE, "m", 1_000, "s");
  if (span < DAY) return two(span, HOUR, "h", MINUTE, "m");
  return two(span, DAY, "d", HOUR, "h");
}

function two(span: number, large: number, a: string, small: number, b: string): string {
  const first = Math.floor(span / large);
  const second = Math.floor((span % large) / small);
  return second ? `${first}${a} ${second}${b}` : `${first}${a}`;
}

/** How long ago, or in how long. */
export function relative(at: number, now: number): string {
  const span = now - at;
  if (Math.abs(span) < 2_000) return "just now";
  return span >= 0 ? `${coarse(span)} ago` : `in ${coarse(-span)}`;
}

export function coarse(span: number): string {
  if (span < MINUTE) return `${Math.floor(span / 1_000)} s`;
  if (span < HOUR) return `${Math.floor(span / MINUTE)} min`;
  if (span < DAY) return `${Math.floor(span / HOUR)} h`;
  return `${Math.floor(span / DAY)} d`;
}

const local = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});

export const inZone = (at: number): string => local.format(at);
export const clockTime = (at: number): string => clock.format(at);
export const exactUtc = (at: number): string => `${new Date(at).toISOString()} (UTC)`;
