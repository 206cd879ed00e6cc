// The course of the race for peers on Node; see course.py, which says the same for Python.

import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";

const WARM_UP = -1;
const WITHIN_MS = 240_000;
const GAP_MS = 20;
const CALLERS = 50;
const BY_CALLERS = 0.25;
const MAX_BY_CALLERS = 3_000;

export const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const nowS = () => performance.now() / 1000;

// Packages are in an environment below .tools, not beside this file.
export const load = createRequire(`${process.env.RACE_HOME}/package.json`);

export function finish(order) {
  const found = { ms: [], left: order.count };
  found.all = new Promise((resolve, reject) => {
    const late = () => reject(new Error(`${found.left} jobs did not come`));
    const timer = globalThis.setTimeout(late, WITHIN_MS);
    found.one = (atUs) => {
      if (atUs === WARM_UP) {
        writeFileSync(order.ready, "");
        return;
      }
      if (atUs) found.ms.push((nowUs() - atUs) / 1000);
      found.left -= 1;
      if (found.left === 0) {
        clearTimeout(timer);
        resolve();
      }
    };
  });
  return found;
}

export async function until(holds, pauseMs = 2) {
  const end = performance.now() + WITHIN_MS;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error("not finished in time");
    await pause(pauseMs);
  }
}

const timed = async (work) => {
  const begun = nowS();
  await work();
  return nowS() - begun;
};

async function repeat(single, count) {
  for (let number = 0; number < count; number += 1) await single(0);
}

// Callers side by side, each of which waits for its answers.
function together(single, count) {
  const share = (caller) => Math.ceil((count - caller) / CALLERS);
  return Promise.all(Array.from({ length: CALLERS }, (_, caller) => repeat(single, share(caller))));
}

// Where there is no call for many, as many are enqueued all the same: there must be as much to drain.
async function unmeasured(work) {
  await work;
  return null;
}

export async function enqueue(order, single, bulk) {
  await single(0); // some connect at the first
  const share = Math.min(MAX_BY_CALLERS, Math.round(order.count * BY_CALLERS));
  const aside = Math.max(CALLERS, share);
  return {
    single_s: await timed(() => repeat(single, order.singles)),
    together_s: await timed(() => together(single, aside)),
    bulk_s: bulk ? await timed(() => bulk(order.count)) : await unmeasured(together(single, order.count)),
    together: aside,
    enqueued: 1 + order.singles + aside + order.count,
  };
}

export async function send(order, single) {
  await single(WARM_UP);
  await until(() => existsSync(order.ready), 10);
  await pause(1000);
  for (let number = 0; number < order.count; number += 1) {
    await pause(GAP_MS);
    await single(nowUs());
  }
  await pause(500);
  return {};
}

// Start the worker, wait for the last job and until it is stored as done.
export async function drained(found, start, live) {
  const begun = nowS();
  await start();
  await found.all;
  await until(async () => (await live()) === 0);
  return { drain_s: nowS() - begun };
}

export async function run(acts) {
  const [act, url, place, count, singles, variant] = process.argv.slice(2);
  const order = { act, url, ready: `${place}/ready`, variant };
  order.count = Number(count);
  order.singles = Number(singles);
  const result = await acts[act](order);
  process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
}
