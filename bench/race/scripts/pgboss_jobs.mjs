// pg-boss on the course, with batches of 1,000.
//
// https://github.com/timgit/pg-boss/blob/master/docs/api/workers.md: `batchSize` is how
// many jobs one fetch brings and one completion ends, `burstWhenBatchFull` fetches again immediately after a full batch, and the
// shortest `pollingIntervalSeconds` is 0.5. Queues with `notify: true` wake workers by NOTIFY.
// `insert` takes many jobs in one statement.

import { enqueue, drained, finish, load, run, send } from "./course.mjs";

const { PgBoss } = load("pg-boss");
const { Pool } = load("pg");

const IN_BATCH = 1000;
const QUEUE = "race";

async function boss(order) {
  const made = new PgBoss({
    connectionString: order.url,
    supervise: false,
    schedule: false,
    useListenNotify: true,
  });
  made.on("error", () => {});
  await made.start();
  await made.createQueue(QUEUE, { notify: true });
  return made;
}

async function sender(order) {
  const made = await boss(order);
  return {
    single: (atUs) => made.send(QUEUE, { atUs }),
    bulk: async (count) => {
      for (let begin = 0; begin < count; begin += IN_BATCH) {
        const size = Math.min(IN_BATCH, count - begin);
        await made.insert(QUEUE, Array.from({ length: size }, () => ({ data: { atUs: 0 } })));
      }
    },
  };
}

async function working(order, found, made) {
  const options = { batchSize: IN_BATCH, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
  await made.work(QUEUE, options, async (jobs) => {
    for (const job of jobs) found.one(job.data.atUs);
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
    const made = await boss(order);
    const pool = new Pool({ connectionString: order.url });
    const live = async () => {
      const asked = `SELECT count(*)::int AS live FROM pgboss.job
        WHERE name = '${QUEUE}' AND state < 'completed'`;
      return (await pool.query(asked)).rows[0].live;
    };
    return drained(found, () => working(order, found, made), live);
  },
  "pick-up": async (order) => {
    const found = finish(order);
    await working(order, found, await boss(order));
    await found.all;
    return { ms: found.ms };
  },
});
