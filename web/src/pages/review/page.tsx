// The review page of a task: what was asked, the diff with comments on its lines, and the verdict.
import "../../styles/review.css";
import { useCallback, useEffect, useState } from "react";
import { client, useFresh, useRead } from "../../api/hooks";
import type { Review } from "../../api/schema";
import { go, Link, linkTo, useSearch } from "../../router";
import { Evidence } from "../../ui/evidence";
import { useKeys } from "../../ui/keys";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Title } from "../../ui/title";
import { say } from "../../ui/toast";
import { useWaiting } from "../inbox/waiting";
import { Asked } from "./asked";
import { Changes } from "./changes";
import { useNotes } from "./notes";
import { NEXT_KEYS } from "./review_keys";
import { Verdict } from "./verdict";

const READS = ["review", "task_comments", "why", "task_evidence", "show_task"] as const;

export default function ReviewPage({ id }: { id: string }) {
  const review = useRead("review", { task_id: id });
  useFresh(READS, (event) => event.stream === id || event.stream.startsWith(`${id}-j`), 400);
  if (review.error && !review.data) {
    return (
      <>
        <Title>Review</Title>
        <Trouble problem={review.error} again={review.refetch} />
        <p>
          It may have been deleted. <Link to="/">Open the inbox</Link>.
        </p>
      </>
    );
  }
  if (!review.data || review.data.task_id !== id) return <Loading what="the review" />;
  return <Opened key={id} latest={review.data} />;
}

/** The diff that is shown stays while it is read, also when the task has a newer one. */
function Opened({ latest }: { latest: Review }) {
  const [pinned, setPinned] = useState(latest.diff);
  // Without a diff, a verdict names the version of the task that was read.
  const [seen, setSeen] = useState(latest.version);
  const [, change] = useSearch();
  const { task_id } = latest;
  const isNewer = pinned !== null && latest.diff?.sha256 !== pinned.sha256;
  const diff = isNewer ? pinned : latest.diff;
  useEffect(() => {
    if (!isNewer) setPinned(latest.diff);
  }, [isNewer, latest.diff]);
  const review = { ...latest, diff };
  const notes = useNotes(task_id, diff?.sha256 ?? null);
  const { settle } = notes;
  const next = useNextItem(task_id);
  useKeys({ e: next }, NEXT_KEYS);
  const reload = useCallback(
    async (since?: string) => {
      if (!(await settle())) return;
      await Promise.all(
        ["review", "review_between"].map((name) => client.invalidateQueries({ queryKey: [name] })),
      );
      setPinned(null);
      setSeen((before) => client.getQueryData<Review>(["review", { task_id }])?.version ?? before);
      change({ since: since ?? null, file: null, line: null });
    },
    [change, settle, task_id],
  );
  return (
    <div className="review">
      <Asked review={review} />
      {diff ? (
        <Changes key={diff.sha256} review={review} diff={diff} notes={notes} onReload={reload} />
      ) : (
        <WithoutDiff review={review} />
      )}
      <Verdict
        review={review}
        drafts={notes.drafts.filter((draft) => draft.text).length}
        openComments={notes.open}
        settle={settle}
        seen={seen}
        onSeen={setSeen}
        onReload={reload}
        onNext={next}
        isNewer={isNewer}
      />
    </div>
  );
}

function WithoutDiff({ review }: { review: Review }) {
  const evidence = useRead("task_evidence", { task_id: review.task_id });
  return (
    <section aria-labelledby="evidence-title">
      <h2 id="evidence-title">Evidence</h2>
      {evidence.error && <Trouble problem={evidence.error} again={evidence.refetch} />}
      {evidence.data?.items.length === 0 ? (
        <Empty title="There is no diff, and no other evidence.">
          <p>An agent that works in a worktree leaves its changes as changes.diff.</p>
        </Empty>
      ) : (
        evidence.data && <Evidence items={evidence.data.items} />
      )}
    </section>
  );
}

/** Opens what waits next for a person. */
function useNextItem(id: string): () => void {
  const { items = [] } = useWaiting();
  return () => {
    const at = items.findIndex((each) => each.id === id);
    const next = [...items.slice(at + 1), ...items.slice(0, Math.max(at, 0))][0];
    if (!next) say("Nothing else is waiting for you.");
    else if (next.kind === "review") go(linkTo.task(next.id, "review"));
    else go(`/inbox/${encodeURIComponent(next.id)}`);
    if (next) scrollTo(0, 0);
  };
}
