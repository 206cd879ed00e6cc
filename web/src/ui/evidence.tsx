// The evidence files of runs: a list, and a viewer that never executes a file.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type Problem, request } from "../api/call";
import type { Evidence as Item } from "../api/schema";
import { useSearch } from "../router";
import { bytes, plain, shortId, words } from "../text";
import { Empty, Loading, Trouble } from "./notes";
import { TextView } from "./value";
import { When } from "./when";

const MAX_SHOWN = 2_000_000;

export function addressOf(item: Pick<Item, "run_id" | "file">): string {
  const file = item.file.split("/").map(encodeURIComponent).join("/");
  return `/api/runs/${encodeURIComponent(item.run_id)}/evidence/${file}`;
}

export function Evidence({ items }: { items: Item[] }) {
  const [search, change] = useSearch();
  if (!items.length) {
    return (
      <Empty title="There is no evidence.">
        <p>Runs write files into their evidence directory, or add them by name.</p>
      </Empty>
    );
  }
  const runs = byRun(items);
  const wanted = search.get("file");
  const open = items.find((item) => keyOf(item) === wanted) ?? first(items);
  return (
    <div className="evidence">
      <div className="files">
        {[...runs].reverse().map(([run, files]) => (
          <section key={run} aria-label={runName(run)}>
            {runs.size > 1 && <h3>{runName(run)}</h3>}
            <ul aria-label="Files">
              {files.map((item) => (
                <li key={keyOf(item)}>
                  <button
                    type="button"
                    className="file"
                    aria-pressed={item === open}
                    onClick={() => change({ file: keyOf(item) })}
                  >
                    <span className="file-name">{plain(item.file)}</span>
                    <span className="faint">
                      {kindName(item)} · {bytes(item.size)}
                    </span>
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
      <Viewer key={keyOf(open)} item={open} />
    </div>
  );
}

const keyOf = (item: Item) => `${item.run_id}/${item.file}`;

function byRun(items: Item[]): Map<string, Item[]> {
  const runs = new Map<string, Item[]>();
  for (const item of items) runs.set(item.run_id, [...(runs.get(item.run_id) ?? []), item]);
  return runs;
}

/** `…-j2-r1` reads `Job 2, run 1`. */
function runName(id: string): string {
  const found = /-j(\d+)-r(\d+)$/.exec(id);
  return found ? `Job ${found[1]}, run ${found[2]}` : `Run ${shortId(id)}`;
}

/** The kind that its run gave it, else what its type says. */
function kindName(item: Item): string {
  if (item.kind !== "unknown") return words(item.kind);
  return /\.(diff|patch)$/.test(item.file) ? "diff" : "file";
}

/** What a reviewer wants to see first: the last diff, else the newest file. */
function first(items: Item[]): Item {
  const diffs = items.filter((item) => /\.(diff|patch)$/.test(item.file));
  return diffs.at(-1) ?? items.at(-1)!;
}

function Viewer({ item }: { item: Item }) {
  return (
    <section className="viewer" aria-label={plain(item.file)}>
      <p className="facts-line">
        <strong className="file-name">{plain(item.file)}</strong>
        <span className="faint">{item.media_type}</span>
        <span className="faint">
          <When at={item.at} />
        </span>
        <span className="faint mono" title={`SHA-256 ${item.sha256}`}>
          {item.sha256.slice(0, 12)}
        </span>
        <a href={addressOf(item)} download={item.file.split("/").at(-1)}>
          Download
        </a>
      </p>
      {item.size > MAX_SHOWN ? (
        <p className="faint">{bytes(item.size)} are too much to show here. Download it instead.</p>
      ) : (
        <Content item={item} />
      )}
    </section>
  );
}

function Content({ item }: { item: Item }) {
  const content = useQuery<Blob, Problem>({
    queryKey: ["evidence", item.run_id, item.file, item.sha256],
    queryFn: async () => (await request(addressOf(item))).blob(),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (content.error) return <Trouble problem={content.error} again={content.refetch} />;
  if (!content.data) return <Loading what="the file" />;
  // Vector images are documents that can hold scripts: they are shown as their text.
  const picture = /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(item.media_type);
  return picture ? (
    <Picture blob={content.data} name={item.file} type={item.media_type} />
  ) : (
    <AsText blob={content.data} name={item.file} />
  );
}

function Picture({ blob, name, type }: { blob: Blob; name: string; type: string }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([blob], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob, type]);
  return url ? <img className="picture" src={url} alt={`Evidence ${plain(name)}`} /> : null;
}

function AsText({ blob, name }: { blob: Blob; name: string }) {
  const [text, setText] = useState<string>();
  useEffect(() => {
    blob.text().then(setText);
  }, [blob]);
  return text === undefined ? <Loading what="the file" /> : <TextView text={text} name={name} />;
}
