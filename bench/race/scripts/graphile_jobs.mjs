// graphile-worker on the course. Variants: `default`, and `batch` with its local queue.
//
// https://worker.graphile.org/docs/performance has the settings of its own best figures, which these
// are: the local queue fetches many jobs together, `completeJobBatchDelay` finishes many together, and
// `addJobs` takes many in one statement.

import { enqueue, drained, finish, load, run, send } from "./course.mjs";

const { Logger, makeWorkerUtils, run: work } = load("graphile-worker");
const { Pool } = load("pg");

const CONCURRENCY = 24;
const IN_BULK = 1000;
const logger = new Logger(() => () => {});
const BATCH = {
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

async function sender(order) {
  const utils = await makeWorkerUtils({ connectionString: order.url, logger });
  await utils.migrate();
  return {
    single: (atUs) => utils.addJob("nothing", { atUs }),
    bulk: async (count) => {
      for (let begin = 0; begin < count; begin += IN_BULK) {
        const size = Math.min(IN_BULK, count - begin);
        const one = () => ({ identifier: "nothing", payload: { atUs: 0 } });
        await utils.addJobs(Array.from({ length: size }, one));
      }
    },
  };
}

function working(order, found) {
  const batch = order.variant === "batch" ? { preset: { worker: BATCH } } : {};
  const taskList = { nothing: async ({ atUs }) => found.one(atUs) };
  return work({
    connectionString: order.url,
    concurrency: CONCURRENCY,
    noHandleSignals: true,
    logger,
    taskList,
    ...batch,
  });
}

run({
  enqueue: async (order) => {
    const { single, bulk } = await sender(order);
    return enqueue(order, single, bulk);
  },
  send: async (order) => send(order, (await sender(order)).single),
  drain: async (order) => {
    const found = finish(order);
    const pool = new Pool({ connectionString: order.url });
    const live = async () => {
      const asked = "SELECT count(*)::int AS live FROM graphile_worker._private_jobs";
      return (await pool.query(asked)).rows[0].live;
    };
    return drained(found, () => working(order, found), live);
  },
  "pick-up": async (order) => {
    const found = finish(order);
    await working(order, found);
    await found.all;
    return { ms: found.ms };
  },
});
