// The directories of the changed files as a tree, and the order in which the page shows files.
import type { DiffFile } from "../../api/schema";

export interface Directory {
  kind: "directory";
  /** The name from the parent on; directories with a single entry are joined: `src/app`. */
  name: string;
  path: string;
  entries: Entry[];
}
export interface Leaf {
  kind: "file";
  name: string;
  file: DiffFile;
}
export type Entry = Directory | Leaf;

/** The tree of files: directories first, each in the order of names. */
export function fileTree(files: readonly DiffFile[]): Entry[] {
  const root: Directory = { kind: "directory", name: "", path: "", entries: [] };
  const known = new Map<string, Directory>([["", root]]);
  for (const file of files) {
    const parts = file.path.split("/");
    const name = parts.pop()!;
    directory(known, parts).entries.push({ kind: "file", name, file });
  }
  return sorted(root).entries.map(joined);
}

function directory(known: Map<string, Directory>, parts: readonly string[]): Directory {
  const path = parts.join("/");
  const found = known.get(path);
  if (found) return found;
  const made: Directory = { kind: "directory", name: parts.at(-1)!, path, entries: [] };
  known.set(path, made);
  directory(known, parts.slice(0, -1)).entries.push(made);
  return made;
}

function sorted(at: Directory): Directory {
  for (const each of at.entries) if (each.kind === "directory") sorted(each);
  at.entries.sort((one, other) =>
    one.kind === other.kind ? (one.name < other.name ? -1 : 1) : one.kind === "directory" ? -1 : 1,
  );
  return at;
}

function joined(entry: Entry): Entry {
  if (entry.kind === "file") return entry;
  const [only] = entry.entries;
  if (entry.entries.length === 1 && only!.kind === "directory") {
    return joined({ ...only!, name: `${entry.name}/${only!.name}` });
  }
  return { ...entry, entries: entry.entries.map(joined) };
}

/** The files in the order of the tree, so that the page and the tree agree. */
export function inTreeOrder(files: readonly DiffFile[]): DiffFile[] {
  const flat = (entry: Entry): DiffFile[] =>
    entry.kind === "file" ? [entry.file] : entry.entries.flatMap(flat);
  return fileTree(files).flatMap(flat);
}

/** Files whose path contains a text, in any case. */
export function matching(files: readonly DiffFile[], text: string): DiffFile[] {
  const wanted = text.trim().toLowerCase();
  return wanted ? files.filter((file) => file.path.toLowerCase().includes(wanted)) : [...files];
}
