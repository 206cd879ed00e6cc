// Counts of passed and failed tests, from the common forms in which tools report them.

export interface TestCounts {
  passed: number;
  failed: number;
}

/** The counts in a report; null if it has none that is known. */
export function testCounts(text: string): TestCounts | null {
  return fromJson(text) ?? fromJunit(text) ?? fromWords(text);
}

function fromJson(text: string): TestCounts | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  for (const each of [value, (value as { summary?: unknown } | null)?.summary]) {
    const found = (each ?? {}) as Record<string, unknown>;
    const passed = found.passed ?? found.numPassedTests;
    const failed = found.failed ?? found.numFailedTests ?? 0;
    const errors = typeof found.errors === "number" ? found.errors : 0;
    if (typeof passed === "number" && typeof failed === "number") {
      return { passed, failed: failed + errors };
    }
  }
  return null;
}

/** JUnit: the totals of the suites, which are attributes. */
function fromJunit(text: string): TestCounts | null {
  const suites = outermostSuites(text);
  if (suites.length === 0) return null;
  const sum = (name: string) =>
    suites.reduce((all, suite) => {
      const found = new RegExp(`\\b${name}="(\\d+)"`).exec(suite);
      return all + Number(found?.[1] ?? 0);
    }, 0);
  const failed = sum("failures") + sum("errors");
  return { passed: Math.max(0, sum("tests") - failed - sum("skipped")), failed };
}

/** The tags of the suites that are in no other suite: they count the tests of those inside. */
function outermostSuites(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  for (const [tag] of text.matchAll(/<\/?testsuite(?:\s[^>]*)?>/g)) {
    if (tag.startsWith("</")) {
      depth -= 1;
      continue;
    }
    if (depth === 0) found.push(tag);
    if (!tag.endsWith("/>")) depth += 1;
  }
  return found;
}

/** A closing line such as "3 failed, 41 passed, 1 error in 2.10s". */
function fromWords(text: string): TestCounts | null {
  const last = (pattern: RegExp) => [...text.slice(-20_000).matchAll(pattern)].at(-1)?.[1];
  const passed = last(/(\d+) (?:tests? )?passed/g);
  const failed = last(/(\d+) (?:tests? )?failed/g);
  if (passed === undefined && failed === undefined) return null;
  // Other lines count other errors.
  const errors = last(/(?:passed|failed)\b.*?\b(\d+) errors?\b/g);
  return { passed: Number(passed ?? 0), failed: Number(failed ?? 0) + Number(errors ?? 0) };
}
