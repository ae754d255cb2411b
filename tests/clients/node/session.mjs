// A session of ioredis, and of node-redis's cache, with the server or proxy at KEYFOLD_ADDR; fails on the first wrong answer.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";

const address = process.env.KEYFOLD_ADDR;
const colon = address.lastIndexOf(":");
const options = { host: address.slice(0, colon), port: Number(address.slice(colon + 1)), commandTimeout: 20_000 };
const client = new Redis(options);
const other = new Redis(options);

const logins = "user:7:logins";
const session = "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10";
const post = ["post:1:title", "post:1:body"];

async function strings() {
  assert.equal(await client.set(logins, 41), "OK");
  assert.equal(await client.incr(logins), 42);
  assert.equal(await client.get(logins), "42");
  assert.equal(await client.set(logins, 1, "NX"), null);
  assert.equal(await client.incrbyfloat(logins, 0.5), "42.5");
  for (const value of [Buffer.alloc(0), Buffer.from([0, 1, 255, 13, 10]), Buffer.alloc(65, "v"), Buffer.alloc(100_000, 7)]) {
    await client.set(session, value);
    assert.deepEqual(await client.getBuffer(session), value);
  }
  await client.mset(post[0], "T", post[1], "B");
  assert.deepEqual(await client.mget(...post, "none"), ["T", "B", null]);
  assert.equal(await client.append(post[0], "!"), 2);
  assert.equal(await client.del(...post), 2);
}

async function expiries() {
  await client.set(session, "token", "EX", 1000);
  const ttl = await client.ttl(session);
  assert.ok(ttl > 990 && ttl <= 1000, `${ttl}`);
  assert.equal(await client.persist(session), 1);
  assert.equal(await client.ttl(session), -1);
  await client.pexpire(session, 1);
  const deadline = Date.now() + 10_000;
  while ((await client.exists(session)) === 1 && Date.now() < deadline);
  assert.equal(await client.get(session), null);
}

async function pipelines() {
  const pipeline = client.pipeline();
  for (let number = 0; number < 200; number++) pipeline.set(`user:${number}:logins`, number);
  for (let number = 0; number < 200; number++) pipeline.get(`user:${number}:logins`);
  const replies = await pipeline.exec();
  replies.slice(200).forEach((reply, number) => assert.deepEqual(reply, [null, String(number)]));
  const keys = new Set();
  for await (const page of client.scanStream({ match: "user:*:logins", count: 20 })) page.forEach((key) => keys.add(key));
  assert.equal(keys.size, 200);
}

async function transactions() {
  await client.set(logins, 1);
  const done = await client.multi().incr(logins).get(logins).set("plain", "x").exec();
  assert.deepEqual(done, [[null, 2], [null, "2"], [null, "OK"]]);
  await client.watch(logins);
  await other.set(logins, 10);
  assert.equal(await client.multi().incr(logins).exec(), null);
  await client.watch(logins);
  assert.deepEqual(await client.multi().incr(logins).exec(), [[null, 11]]);
}

async function errors() {
  await client.set(logins, "text");
  await assert.rejects(client.incr(logins), /not an integer/);
  await assert.rejects(client.lpush(logins, "a"), /WRONGTYPE/);
}

async function pubsub() {
  const subscriber = new Redis(options);
  const heard = new Promise((resolve) => subscriber.on("message", (channel, message) => resolve([channel, message])));
  await subscriber.subscribe("news");
  assert.equal(await client.publish("news", "hello"), 1);
  assert.deepEqual(await heard, ["news", "hello"]);
  subscriber.disconnect();
}

async function blocking() {
  const popped = client.blpop("list", 10);
  await wait(100);
  await other.rpush("list", "item");
  assert.deepEqual(await popped, ["list", "item"]);
}

// node-redis keeps what it read until it is told that somebody has changed it.
async function caching() {
  const cache = { ttl: 0, maxEntries: 1000 };
  const cached = createClient({ url: `redis://${address}`, RESP: 3, clientSideCache: cache });
  cached.on("error", () => {});
  await cached.connect();
  const eventually = async (expected, key) => {
    const deadline = Date.now() + 20_000;
    while ((await cached.get(key)) !== expected) {
      assert.ok(Date.now() < deadline, `${key} was not forgotten`);
      // What comes from the cache reads nothing of the socket.
      await wait(1);
    }
  };
  for (const key of [logins, session, "plain"]) {
    await client.set(key, "old");
    assert.equal(await cached.get(key), "old");
    assert.equal(await cached.get(key), "old");
    await client.set(key, "new");
    await eventually("new", key);
    await cached.set(key, "own");
    assert.equal(await cached.get(key), "own");
    await client.pexpire(key, 50);
    await eventually(null, key);
  }
  await cached.set(logins, "kept");
  assert.equal(await cached.get(logins), "kept");
  await client.flushall();
  await eventually(null, logins);
  cached.destroy();
  console.log(`node-redis ${createRequire(import.meta.url)("redis/package.json").version}, its cache: as it should be`);
}

try {
  await client.flushall();
  for (const part of [strings, expiries, pipelines, transactions, errors, pubsub, blocking, caching]) await part();
  console.log(`ioredis ${createRequire(import.meta.url)("ioredis/package.json").version}, RESP2: as it should be`);
} finally {
  client.disconnect();
  other.disconnect();
}
