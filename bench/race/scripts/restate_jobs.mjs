// Restate on the course: its server from npm, and handlers of its SDK.
//
// https://docs.restate.dev/services/invocation: `POST /service/handler/send` returns when the
// invocation is durable. The server calls the handlers at an address that is registered beforehand,
// and tries again while nothing listens there; the interval is set where the server is started. There
// is no call that sends many. A durable step is `ctx.run`.

import { createServer } from "node:net";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { drained, enqueue, finish, load, run, send, until } from "./course.mjs";

const restate = load("@restatedev/restate-sdk");
const LIVE = "SELECT count(1) AS live FROM sys_invocation WHERE status <> 'completed'";
const logger = () => {};

function service(found) {
  return restate.service({
    name: "race",
    handlers: {
      nothing: async (_ctx, atUs) => found.one(atUs),
      five: async (ctx, atUs) => {
        let total = 0;
        for (let number = 0; number < 5; number += 1) {
          total += await ctx.run(`step-${number}`, () => 1);
        }
        found.one(atUs);
        return total;
      },
    },
  });
}

const portFile = (order) => `${dirname(order.ready)}/port`;

function listening(order, found, port) {
  const server = restate.createEndpointHandler({ services: [service(found)], logger });
  return new Promise((resolve) => {
    const http2 = load("node:http2").createServer(server);
    http2.listen(port, "127.0.0.1", () => resolve(http2));
  });
}

const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

async function post(url, body) {
  const headers = { "content-type": "application/json", accept: "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

const admin = (order, path) => `http://127.0.0.1:${new URL(order.url).hash.slice(1)}${path}`;
const sender = (order, handler) => (atUs) =>
  post(new URL(`/race/${handler}/send`, order.url), atUs);

// The handlers must be known before the first job: the server asks the worker for them once.
async function register(order) {
  const port = await freePort();
  writeFileSync(portFile(order), String(port));
  const server = await listening(order, { one: () => {} }, port);
  const uri = `http://127.0.0.1:${port}`;
  await until(() => post(admin(order, "/deployments"), { uri }).then(() => true, () => false), 100);
  server.close();
  server.closeAllConnections?.();
}

const live = async (order) => {
  const found = await post(admin(order, "/query"), { query: LIVE });
  return Number(found.rows[0].live);
};

const working = (order, found) => listening(order, found, Number(readFileSync(portFile(order))));

async function drain(order) {
  const found = finish(order);
  return drained(found, () => working(order, found), () => live(order));
}

run({
  enqueue: async (order) => {
    await register(order);
    return enqueue(order, sender(order, "nothing"), null);
  },
  send: (order) => send(order, sender(order, "nothing")),
  drain,
  "pick-up": async (order) => {
    const found = finish(order);
    await working(order, found);
    await found.all;
    await until(async () => (await live(order)) === 0);
    return { ms: found.ms };
  },
  flows: async (order) => {
    const one = sender(order, "five");
    for (let number = 0; number < order.count; number += 1) await one(0);
    return {};
  },
  flow: drain,
});
