// A session of ioredis's cluster client with the keyfolds at KEYFOLD_ADDRS; fails on the first wrong answer. The second
// keyfold, of the processes in KEYFOLD_PIDS, is killed at the end: the first has all slots then.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { setTimeout as wait } from "node:timers/promises";
import { Cluster } from "ioredis";

const nodes = process.env.KEYFOLD_ADDRS.split(",").map((address) => {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
});
const pids = process.env.KEYFOLD_PIDS.split(",").map(Number);
const options = { redisOptions: { commandTimeout: 20_000 } };
const client = new Cluster(nodes, options);

const users = Array.from({ length: 1000 }, (_, number) => `user:${number}`);
const numbers = users.map((_, number) => String(number));
const cart = Array.from({ length: 20 }, (_, item) => `cart:{7}:${item}`);

async function values() {
  assert.equal(client.nodes("master").length, 2);
  assert.deepEqual(await Promise.all(users.map((key, number) => client.set(key, number))), users.map(() => "OK"));
  assert.deepEqual(await Promise.all(users.map((key) => client.get(key))), numbers);
  assert.equal(await client.incr("user:41"), 42);
  assert.equal(await client.decr("user:41"), 41);
}

async function pipelines() {
  // ioredis allows the slots of one node in a pipeline.
  const pipeline = client.pipeline();
  for (const key of cart) pipeline.set(key, 1).get(key);
  const answers = await pipeline.exec();
  assert.deepEqual(answers, cart.flatMap(() => [[null, "OK"], [null, "1"]]));
}

async function manyKeys() {
  assert.deepEqual(await client.mget(...cart), cart.map(() => "1"));
  assert.equal(await client.del(...cart.slice(10)), 10);
  assert.equal(await client.exists(...cart), 10);
}

async function transactions() {
  const answers = await client.multi().set(cart[0], 1).incr(cart[0]).get("plain:{7}").exec();
  assert.deepEqual(answers, [[null, "OK"], [null, 2], [null, null]]);
  assert.equal(await client.eval("return redis.call('INCR', KEYS[1])", 1, "plain:{7}"), 1);
}

async function walks() {
  // Each keyfold shows the keys of all.
  for (const node of client.nodes("master")) {
    const found = new Set();
    for await (const keys of node.scanStream({ match: "user:*", count: 200 })) keys.forEach((key) => found.add(key));
    assert.deepEqual(found, new Set(users));
  }
}

async function messages() {
  const listener = new Cluster(nodes, options);
  await listener.subscribe("news");
  const heard = once(listener, "message");
  await client.publish("news", "a");
  assert.deepEqual(await heard, ["news", "a"]);
  listener.disconnect();

  const sharded = new Cluster(nodes, { ...options, shardedSubscribers: true });
  await once(sharded, "ready");
  await sharded.ssubscribe("news:{7}");
  const heardThere = once(sharded, "smessage");
  await client.spublish("news:{7}", "b");
  assert.deepEqual((await heardThere).slice(0, 2), ["news:{7}", "b"]);
  sharded.disconnect();
}

async function oneIsGone() {
  process.kill(pids[1], "SIGKILL");
  const deadline = Date.now() + 30_000;
  for (const [number, key] of users.entries()) {
    for (;;) {
      try {
        assert.equal(await client.get(key), String(number));
        break;
      } catch (error) {
        if (error instanceof assert.AssertionError || Date.now() > deadline) throw error;
        await wait(100);
      }
    }
  }
}

await once(client, "ready");
await Promise.all(client.nodes("master").map((node) => node.flushall()));
for (const part of [values, pipelines, manyKeys, transactions, walks, messages, oneIsGone]) await part();
client.disconnect();
const { version } = createRequire(import.meta.url)("ioredis/package.json");
console.log(`ioredis ${version}, cluster: as it should be`);
