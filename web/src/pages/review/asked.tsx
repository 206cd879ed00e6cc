// The head of a review: what was asked, what it cost, what the tests and the agent say.
import { useQuery } from "@tanstack/react-query";
import { type Problem, request } from "../../api/call";
import type { Evidence, Review } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { bytes, dollars, plain, plural, shown, words } from "../../text";
import { duration } from "../../time";
import { addressOf } from "../../ui/evidence";
import { StateMark } from "../../ui/state";
import { Title } from "../../ui/title";
import { Value } from "../../ui/value";
import { titleOf } from "../inbox/kinds";
import { Rounds, summaryOf } from "../inbox/review";
import { CheckCard } from "./check";
import { Prose } from "./prose";
import { testCounts } from "./test_counts";

export function Asked({ review }: { review: Review }) {
  const summary = summaryOf(review.result);
  return (
    <header className="review-head">
      <div className="title-row">
        <Title tab={`Review: ${titleOf(review)}`}>{titleOf(review)}</Title>
        <Link to={linkTo.task(review.task_id)}>Open the task</Link>
      </div>
      <Facts review={review} />
      <div className="asked-cards">
        <details className="asked-for" open>
          <summary>What was asked</summary>
          <Payload value={review.asked.payload} />
          <Criteria value={review.asked.acceptance_criteria} />
        </details>
        {review.result != null && (
          <details className="asked-for" open>
            <summary>{summary ? "Summary of the agent" : "Result"}</summary>
            {summary ? <Prose text={summary} /> : <Value value={review.result} />}
          </details>
        )}
        {review.check && <CheckCard check={review.check} />}
      </div>
      <Rounds task={{ ...review, id: review.task_id }} />
    </header>
  );
}

function Criteria({ value }: { value: unknown }) {
  const all = Array.isArray(value) ? value : value == null || value === "" ? [] : [value];
  if (!all.length) return null;
  return (
    <>
      <h2>Acceptance criteria</h2>
      <ul className="criteria">
        {all.map((each) => (
          <li key={shown(each)}>
            <Prose text={shown(each)} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Facts({ review }: { review: Review }) {
  const { rounds, rounds_limit: limit } = review;
  return (
    <dl className="review-facts">
      <Fact name="State">
        <StateMark table={review.lifecycle} state={review.state} />
      </Fact>
      <Fact name="Round">{roundText(rounds, limit)}</Fact>
      <Fact name="Cost">{dollars(review.cost_usd)}</Fact>
      <Fact name="Tokens">
        {review.tokens_in.toLocaleString("en")} in, {review.tokens_out.toLocaleString("en")} out
      </Fact>
      <Fact name="Duration">{duration(review.duration_ms)}</Fact>
      <Fact name="Tests">
        {review.tests.length
          ? review.tests.map((item) => <Test key={`${item.run_id}/${item.file}`} item={item} />)
          : "none recorded"}
      </Fact>
    </dl>
  );
}

/** The number of the round, and how many requests for changes are left. */
function roundText(rounds: number, limit: number | null): string {
  const left =
    limit === null ? "" : `, ${plural(Math.max(0, limit - rounds), "more request")} possible`;
  return `${rounds + 1}${left}`;
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Larger files of test results are named, not read. */
const MAX_READ = 1_000_000;

function Test({ item }: { item: Evidence }) {
  const content = useQuery<string, Problem>({
    queryKey: ["evidence text", item.sha256],
    queryFn: async () => (await request(addressOf(item))).text(),
    staleTime: Number.POSITIVE_INFINITY,
    enabled: item.size <= MAX_READ,
  });
  const counts = content.data === undefined ? null : testCounts(content.data);
  return (
    <span className="test-result">
      {counts && (
        <span data-look={counts.failed ? "bad" : "good"} className="state">
          {counts.failed ? `${counts.failed} failed, ` : ""}
          {plural(counts.passed, "test")} passed
        </span>
      )}{" "}
      <a href={addressOf(item)} download={item.file.split("/").at(-1)}>
        {plain(item.file)}
      </a>
    </span>
  );
}

/** The payload in a readable form: a text as it is, fields by name. */
function Payload({ value }: { value: unknown }) {
  if (typeof value === "string") return <Prose text={value} />;
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    return <Value value={value} />;
  }
  // The acceptance criteria have a place of their own.
  const fields = Object.entries(value).filter(([name]) => name !== "acceptance_criteria");
  if (!fields.length) return <p className="faint">The task has no payload.</p>;
  return (
    <dl className="payload">
      {fields.map(([name, field]) => (
        <div key={name}>
          <dt>{plain(words(name))}</dt>
          <dd>
            <Field value={field} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Longer values are opened by the reader, so that the files stay in reach. */
const MAX_OPEN = 2_000;

function Field({ value }: { value: unknown }) {
  const text = shown(value);
  const content = typeof value === "string" ? <Prose text={value} /> : <code>{text}</code>;
  if (text.length <= MAX_OPEN) return content;
  return (
    <details>
      <summary>{bytes(text.length)} of text</summary>
      {content}
    </details>
  );
}
