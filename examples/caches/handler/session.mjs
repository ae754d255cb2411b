// A session of the handler with the keyfold at KEYFOLD_ADDR, which has the layout beside this file; fails on the first wrong
// answer. Four handlers, each with a connection and a cache of its own, stand for four processes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { Redis } from "ioredis";
import { Bundles } from "./bundles.mjs";
import { handler, PARTS } from "./server.mjs";

const address = process.env.KEYFOLD_ADDR;
const colon = address.lastIndexOf(":");
const options = { host: address.slice(0, colon), port: Number(address.slice(colon + 1)), commandTimeout: 20_000 };
const client = new Redis(options);
const LAMP = { name: "Lamp", price: "12.50", stock: "3" };

// What the caches ask: products by id, how often each was loaded, and a promise that holds loads back.
const database = { products: new Map(), loads: 0, held: Promise.resolve(), failing: false };
const load = async (id) => {
  database.loads++;
  await database.held;
  if (database.failing) throw new Error("no database");
  return database.products.get(id) ?? null;
};

// The clock of all caches, which tests put forward, and their dice.
let ahead = 0;
let dice = 1;
let requests = 0;
let allHaveCome;
const failures = [];
const settings = {
  now: () => Date.now() + ahead,
  random: () => dice,
  failed: (error) => failures.push(error),
  lockMs: 60_000,
  pollMs: 1,
};
const caches = Array.from({ length: 4 }, () => new Bundles(new Redis(options), "product", PARTS, load, settings));
const [cache] = caches;
const servers = await Promise.all(
  caches.map(
    (bundles) =>
      new Promise((resolve) => {
        const handle = handler(bundles);
        const server = createServer((request, response) => {
          if (--requests === 0) allHaveCome();
          handle(request, response);
        }).listen(0, "127.0.0.1", () => resolve(server));
      }),
  ),
);

const fetched = async (index, id) => {
  const response = await fetch(`http://127.0.0.1:${servers[index % 4].address().port}/product/${id}`);
  return [response.status, await response.json()];
};

async function ask(id, times) {
  requests = times;
  const come = new Promise((resolve) => (allHaveCome = resolve));
  const answers = Array.from({ length: times }, (_, index) => fetched(index, id));
  await come;
  return answers;
}

// What the server behind was asked to do meanwhile, of these commands.
async function serverCalls(names, work) {
  const calls = async () => {
    const stats = await client.info("commandstats");
    return names.map((name) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0));
  };
  const before = await calls();
  await work();
  const after = await calls();
  return Object.fromEntries(names.map((name, index) => [name, after[index] - before[index]]));
}

async function comesToBe(what, is) {
  const deadline = performance.now() + 60_000;
  while (!(await is())) {
    assert.ok(performance.now() < deadline, `never came to be: ${what}`);
    await turn();
  }
}

const noneLoads = (id) => comesToBe("a lock given back", async () => (await client.exists(`product:${id}:lock`)) === 0);

function where(key) {
  const said = spawnSync(process.env.KEYFOLD, ["where", "--json", process.env.KEYFOLD_SERVER, key], { encoding: "utf8" });
  assert.equal(said.status, 0, said.stderr);
  return JSON.parse(said.stdout);
}

async function manyRequestsAreOneLoad() {
  database.products.set("7", LAMP);
  let release;
  database.held = new Promise((resolve) => (release = resolve));
  const answers = await ask(7, 100);
  release();
  for (const answer of answers) assert.deepEqual(await answer, [200, LAMP]);
  assert.equal(database.loads, 1);
  assert.equal(await client.exists("product:7:lock"), 0);
}

async function aBundleIsOneBucketAndOneRequest() {
  for (const key of cache.keys(7)) {
    const told = where(key);
    assert.equal(told["bucket's encoding"], "listpack");
    assert.equal(told.physical, where("product:7:at").physical);
  }
  assert.deepEqual(
    await serverCalls(["hmget", "evalsha", "eval"], async () => assert.deepEqual(await cache.get("7"), LAMP)),
    { hmget: 1, evalsha: 0, eval: 0 },
  );
  const ends = await Promise.all(cache.keys(7).map((key) => client.pexpiretime(key)));
  assert.equal(new Set(ends).size, 1, `all parts expire at one moment: ${ends}`);
}

async function aStaleBundleIsAnsweredAndRefreshedOnce() {
  const dearer = { ...LAMP, price: "13.00" };
  database.products.set("7", dearer);
  database.loads = 0;
  let release;
  database.held = new Promise((resolve) => (release = resolve));
  ahead += cache.freshMs;
  // The load is held back, and yet all have their answers: the old one.
  for (const answer of await ask(7, 100)) assert.deepEqual(await answer, [200, LAMP]);
  await comesToBe("a refresh", () => database.loads > 0);
  release();
  await comesToBe("the new price", async () => (await client.get("product:7:price")) === "13.00");
  for (const answer of await ask(7, 8)) assert.deepEqual(await answer, [200, dearer]);
  await noneLoads(7);
  assert.equal(database.loads, 1);
}

async function aRefreshComesEarlyByChanceAndOnce() {
  // It took 100 ms to load, and stays fresh for 10 s: -ln(0.5) · 100 ms is far from the end, -ln(1e-60) · 100 ms beyond it.
  database.loads = 0;
  const at = () => client.set("product:7:at", `${settings.now() + 10_000} 100 1`, "KEEPTTL");
  await at();
  dice = 0.5;
  for (const answer of await ask(7, 40)) await answer;
  assert.equal(database.loads, 0);
  let release;
  database.held = new Promise((resolve) => (release = resolve));
  dice = 1e-60;
  const before = Object.fromEntries(PARTS.map((part, index) => [part, ["Lamp", "13.00", "3"][index]]));
  for (const answer of await ask(7, 100)) assert.deepEqual(await answer, [200, before]);
  await comesToBe("a refresh", () => database.loads > 0);
  release();
  dice = 1;
  await comesToBe("another moment", async () => !(await client.get("product:7:at")).includes(" 100 "));
  await noneLoads(7);
  assert.equal(database.loads, 1, "one of a hundred that all came to want it");
}

async function whatIsNotThereIsRemembered() {
  database.loads = 0;
  for (let round = 0; round < 5; round++) {
    for (const answer of await ask(8, 20)) assert.equal((await answer)[0], 404);
  }
  assert.equal(database.loads, 1);
  assert.ok((await client.pttl("product:8:at")) <= cache.absentMs);
  // What comes to be there is told at once by who makes it.
  database.products.set("8", LAMP);
  await cache.forget(8);
  assert.deepEqual(await Promise.all(await ask(8, 1)), [[200, LAMP]]);
  // What goes, goes whole.
  database.products.delete("8");
  ahead += cache.freshMs;
  await Promise.all(await ask(8, 1));
  await comesToBe("no more parts", async () => (await client.exists(cache.keys(8))) === 1);
  assert.deepEqual(await Promise.all(await ask(8, 1)).then(([[status]]) => status), 404);
  // Only products are asked for.
  for (const path of ["-1", "007", "x", "7/..", "99999999999999999999"]) assert.equal((await fetched(0, path))[0], 404);
}

async function theWholeExpiresAndIsForgotten() {
  await cache.expire(7, 100_000);
  assert.deepEqual(await serverCalls(["evalsha", "eval"], () => cache.expire(7, 50_000)), { evalsha: 1, eval: 0 });
  for (const key of cache.keys(7)) assert.ok((await client.pttl(key)) <= 50_000);
  await cache.expire(7, 50);
  await comesToBe("no bundle", async () => (await client.exists(cache.keys(7))) === 0);
  await cache.get("7");
  assert.deepEqual(
    await serverCalls(["hmget", "hdel", "exec"], async () => assert.equal(await cache.forget(7), 4)),
    { hmget: 1, hdel: 1, exec: 1 },
  );
}

async function failuresLeaveNothingBehind() {
  database.failing = true;
  for (const answer of await ask(7, 20)) assert.equal((await answer)[0], 503);
  assert.equal(await client.exists("product:7:lock"), 0);
  database.failing = false;
  assert.equal((await fetched(0, 7))[0], 200);
  // A stale bundle is better than none, as long as the database is gone.
  ahead += cache.freshMs;
  database.failing = true;
  assert.equal((await fetched(0, 7))[0], 200);
  await comesToBe("a failed refresh", () => failures.length > 0);
  database.failing = false;
  // Who held the lock and died holds up others until it expires, and no longer; a lock of another is left alone.
  await cache.forget(7);
  await client.set("product:7:lock", "of the dead", "PX", 300);
  assert.equal((await fetched(0, 7))[0], 200);
  // A part alone that is gone, evicted maybe, is a bundle to load again.
  await client.del("product:7:price");
  assert.deepEqual(await cache.get("7"), database.products.get("7"));
}

// Two requests have their answers silenced: those that fail on purpose.
console.error = () => {};
await client.flushall();
await manyRequestsAreOneLoad();
await aBundleIsOneBucketAndOneRequest();
await aStaleBundleIsAnsweredAndRefreshedOnce();
await aRefreshComesEarlyByChanceAndOnce();
await whatIsNotThereIsRemembered();
await theWholeExpiresAndIsForgotten();
await failuresLeaveNothingBehind();
for (const server of servers) server.close().closeAllConnections();
for (const { client: own } of caches) own.disconnect();
client.disconnect();
console.log("handler, ioredis: as it should be");
