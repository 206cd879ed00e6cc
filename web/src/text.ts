// Makes untrusted text safe to show: invisible and bidirectional characters become visible.

// Controls but tab and newline; bidirectional marks; zero-width and tag characters.
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with every invisible character replaced by a visible sign. */
export function plain(text: string): string {
  return text.replace(INVISIBLE, "\ufffd");
}

/** The path of a file on one line: a newline or a tab in it is not shown as a space. */
export function pathText(path: string): string {
  return plain(path.replaceAll("\n", "\\n").replaceAll("\t", "\\t"));
}

/** A value of any type as one readable text. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return plain(typeof value === "string" ? value : JSON.stringify(value, null, 2));
}

/** Words for a name of the tables: `timed_out` reads `timed out`. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** A reason: the name of one as words, a text as it is. */
export function reasonText(reason: string): string {
  return plain(/^[a-z_]+$/.test(reason) ? words(reason) : reason);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export function bytes(size: number): string {
  if (size < 1_000) return `${size} B`;
  const units = ["kB", "MB", "GB"];
  let value = size / 1_000;
  let at = 0;
  // From 999.5 on, three digits are not enough for the smaller unit.
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1_000;
    at += 1;
  }
  return `${value.toPrecision(3)} ${units[at]}`;
}

export function dollars(amount: number): string {
  const digits = amount !== 0 && Math.abs(amount) < 0.1 ? 4 : 2;
  return `$${amount.toFixed(digits)}`;
}

/** An id that people can tell apart at a glance: its end is what differs. */
export function shortId(id: string): string {
  return id.length <= 14 ? plain(id) : `…${plain(id.slice(-10))}`;
}
