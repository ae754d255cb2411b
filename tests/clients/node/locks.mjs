// Locks, rate limits and commands by scripts, of redlock, rate-limiter-flexible and ioredis, on folded keys of the server or
// proxy at KEYFOLD_ADDR; fails on the first wrong answer.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";
import limits from "rate-limiter-flexible";
import { createClient } from "redis";
import redlock from "redlock";

const { RateLimiterRedis, RateLimiterMemory, RateLimiterRes, BurstyRateLimiter } = limits;
// Its package names no types of modules.
const Redlock = redlock.default ?? redlock;
const address = process.env.KEYFOLD_ADDR;
const colon = address.lastIndexOf(":");
const options = { host: address.slice(0, colon), port: Number(address.slice(colon + 1)), commandTimeout: 20_000 };
const clients = Array.from({ length: 6 }, () => new Redis(options));
const [client, other] = clients;

const forever = { retryCount: -1, retryDelay: 3, retryJitter: 5 };
const once = { retryCount: 0 };

// Of all who want the lock one has it at a time: what they write one after the other adds up, though nothing else sees to that.
async function onlyOneHolds() {
  for (const [keys, sum] of [[["cnt:lock"], "cnt:sum"], [["cnt:lock", "memo:lock", "user:5:logins"], "plain-sum"]]) {
    let inside = 0;
    const work = async (own) => {
      const locks = new Redlock([own], forever);
      for (let round = 0; round < 10; round++) {
        const lock = await locks.acquire(keys, 60_000);
        assert.equal(++inside, 1);
        const before = Number(await own.get(sum));
        await wait(1);
        await own.set(sum, before + 1);
        inside--;
        await lock.release();
      }
    };
    await Promise.all(clients.map(work));
    assert.equal(await client.get(sum), String(10 * clients.length));
    assert.equal(await client.exists(...keys), 0);
  }
}

async function locksAreExtendedAndLost() {
  const [mine, theirs] = [client, other].map((own) => new Redlock([own], once));
  const keys = ["cnt:a", "sess:0b6e9b34-6d1f-4a52-9c3d-2f1f6f5a7e10"];
  let lock = await mine.acquire(keys, 100_000);
  for (const key of keys) await hasLeft(key, 100);
  await assert.rejects(theirs.acquire([keys[1], "cnt:b"], 100_000));
  assert.equal(await client.exists("cnt:b"), 0);
  lock = await lock.extend(200_000);
  for (const key of keys) await hasLeft(key, 200);
  // The server forgets its scripts while the lock is held.
  await other.script("FLUSH");
  await lock.release();
  assert.equal(await client.exists(...keys), 0);
  // A lock that is somebody else's by now is neither extended nor given back.
  lock = await mine.acquire(["cnt:a"], 100_000);
  await other.set("cnt:a", "somebody else");
  await assert.rejects(lock.extend(100_000));
  await assert.rejects(lock.release());
  assert.equal(await client.get("cnt:a"), "somebody else");
  await other.persist("cnt:a");
  await assert.rejects(mine.acquire(["cnt:a"], 100_000));
  await other.del("cnt:a");
  // One that nobody gives back ends by itself.
  await mine.acquire(["cnt:a"], 50);
  lock = await new Redlock([other], forever).acquire(["cnt:a"], 100_000);
  await lock.release();
  // What is held for as long as work takes is extended meanwhile.
  const keeping = new Redlock([client], { ...once, automaticExtensionThreshold: 59_000 });
  await keeping.using(["cnt:kept"], 60_000, async (signal) => {
    let left = await client.pttl("cnt:kept");
    for (let next = left; next <= left; next = await client.pttl("cnt:kept")) {
      assert.ok(!signal.aborted);
      left = next;
      await wait(20);
    }
  });
  assert.equal(await client.exists("cnt:kept"), 0);
}

async function hasLeft(key, seconds) {
  const left = await client.ttl(key);
  assert.ok(left > seconds - 10 && left <= seconds, `${key}: ${left}`);
}

// Of all that ask at once exactly as many are let through as there are points, and each is told another count.
async function limitsAreExact(storeClients, duration, more) {
  const limiters = storeClients.map(
    (storeClient) => new RateLimiterRedis({ storeClient, keyPrefix: "cnt", points: 40, duration, ...more }),
  );
  const asked = Array.from({ length: 100 }, (_, at) => limiters[at % limiters.length].consume("someone"));
  const settled = await Promise.allSettled(asked);
  const told = settled.map((one) => one.value ?? one.reason);
  told.forEach((one) => assert.ok(one instanceof RateLimiterRes, String(one)));
  assert.deepEqual(told.map((one) => one.consumedPoints).sort((one, next) => one - next), Array.from({ length: 100 }, (_, at) => at + 1));
  assert.equal(settled.filter((one) => one.status === "fulfilled").length, 40);
  settled.forEach((one) => assert.equal(one.status === "fulfilled", (one.value ?? one.reason).consumedPoints <= 40));
  const [limiter] = limiters;
  assert.equal(await client.get("cnt:someone"), "100");
  if (duration) await hasLeft("cnt:someone", duration);
  else assert.equal(await client.ttl("cnt:someone"), -1);
  assert.equal((await limiter.penalty("someone", 5)).consumedPoints, 105);
  assert.equal((await limiter.reward("someone", 100)).consumedPoints, 5);
  assert.equal((await limiter.consume("someone", 30)).remainingPoints, 5);
  assert.equal((await limiter.get("someone")).consumedPoints, 35);
  assert.equal(await limiter.get("nobody"), null);
  await limiter.block("someone", 500);
  await hasLeft("cnt:someone", 500);
  await assert.rejects(limiter.consume("someone"), RateLimiterRes);
  await limiter.set("someone", 7, 300);
  await hasLeft("cnt:someone", 300);
  await limiter.set("someone", 7, 0);
  assert.equal(await client.ttl("cnt:someone"), -1);
  assert.equal((await limiter.consume("someone")).consumedPoints, 8);
  // A counter without an expiry is given one where counts are by time.
  if (duration) await hasLeft("cnt:someone", duration);
  assert.equal(await limiter.delete("someone"), true);
  assert.equal(await limiter.delete("someone"), false);
  assert.equal(await client.exists("cnt:someone"), 0);
}

async function limitsByIoredis() {
  await limitsAreExact(clients, 1000, {});
  await limitsAreExact(clients, 0, {});
  await other.script("FLUSH");
  await limitsAreExact(clients, 1000, { blockDuration: 0 });
}

async function limitsByNodeRedis() {
  for (const RESP of [2, 3]) {
    const connected = await createClient({ url: `redis://${address}`, RESP }).on("error", () => {}).connect();
    await limitsAreExact([connected], 1000, { useRedisPackage: true });
    await limitsAreExact([connected], 0, { useRedisPackage: true });
    connected.destroy();
  }
}

// Who is over the limit is held off for longer than the limit's own time, and a burst has points of its own.
async function limitsOfOtherKinds() {
  const strict = new RateLimiterRedis({ storeClient: client, keyPrefix: "cnt", points: 2, duration: 100, blockDuration: 700 });
  await strict.consume("held");
  await strict.consume("held");
  await assert.rejects(strict.consume("held"), RateLimiterRes);
  await hasLeft("cnt:held", 700);
  const slow = new RateLimiterRedis({ storeClient: client, keyPrefix: "cnt", points: 2, duration: 1000 });
  const burst = new RateLimiterRedis({ storeClient: client, keyPrefix: "memo", points: 3, duration: 2000 });
  const both = new BurstyRateLimiter(slow, burst);
  const settled = await Promise.allSettled(Array.from({ length: 9 }, () => both.consume("bursts")));
  assert.equal(settled.filter((one) => one.status === "fulfilled").length, 5);
  await hasLeft("memo:bursts", 2000);
  // A window that is over is counted anew.
  const short = new RateLimiterRedis({ storeClient: client, keyPrefix: "cnt", points: 1, duration: 1 });
  await short.consume("short");
  while ((await short.get("short")) !== null) await wait(20);
  assert.equal((await short.consume("short")).consumedPoints, 1);
  // Without a server whoever asks gets an error, or what the insurance says.
  const gone = new Redis({ ...options, enableOfflineQueue: false });
  gone.on("error", () => {});
  gone.disconnect();
  const left = { storeClient: gone, keyPrefix: "cnt", points: 1, duration: 100, rejectIfRedisNotReady: true };
  await assert.rejects(new RateLimiterRedis(left).consume("insured"), Error);
  const insuranceLimiter = new RateLimiterMemory({ points: 1, duration: 100 });
  assert.equal((await new RateLimiterRedis({ ...left, insuranceLimiter }).consume("insured")).consumedPoints, 1);
  assert.equal(await client.exists("cnt:insured"), 0);
}

const scripts = {
  swap: { numberOfKeys: 1, lua: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') return 1" },
  give: {
    numberOfKeys: 2,
    lua: `local has = tonumber(redis.call('GET', KEYS[1]) or 0)
          if has < tonumber(ARGV[1]) then return redis.error_reply('POOR has ' .. has) end
          return {redis.call('DECRBY', KEYS[1], ARGV[1]), redis.call('INCRBY', KEYS[2], ARGV[1])}`,
  },
  keep: { numberOfKeys: 1, lua: "redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) return redis.call('TTL', KEYS[1])" },
  // Its first argument says how many keys it has.
  sum: { lua: "local sum = 0 for _, key in ipairs(KEYS) do sum = sum + (redis.call('GET', key) or 0) end return sum" },
  look: { numberOfKeys: 1, readOnly: true, lua: "return redis.call('GET', KEYS[1])" },
};

async function definedCommands() {
  const prefixed = new Redis({ ...options, keyPrefix: "cnt:" });
  for (const one of [client, other, prefixed]) Object.entries(scripts).forEach(([name, script]) => one.defineCommand(name, script));
  for (let round = 0; round < 3; round++) {
    assert.equal(await client.set("cnt:purse", 100), "OK");
    assert.deepEqual(await client.give("cnt:purse", "memo:purse", 30), [70, 30 * (round + 1)]);
    await assert.rejects(other.give("cnt:purse", "memo:purse", 71), /POOR has 70/);
    assert.equal(await client.swap("cnt:purse", "71", "1"), 0);
    assert.equal(await client.keep("user:1:logins", 5, 1000), 1000);
    assert.equal(await other.swap("user:1:logins", "5", "6"), 1);
    await hasLeft("user:1:logins", 1000);
    assert.equal(await prefixed.swap("purse", "70", "80"), 1);
    assert.equal(await prefixed.sum(2, "purse", "none"), 80);
    assert.equal(await client.sum(3, "cnt:purse", "user:1:logins", "plain"), 86);
    assert.deepEqual(await client.lookBuffer("cnt:purse"), Buffer.from("80"));
    // Next, all of it once more by hashes that the server doesn't know.
    await other.script("FLUSH");
  }
  prefixed.disconnect();
}

async function pipelinesOfScripts() {
  for (let round = 0; round < 2; round++) {
    // A connection of its own, which hasn't asked yet which scripts the server has.
    const own = new Redis(options);
    Object.entries(scripts).forEach(([name, script]) => own.defineCommand(name, script));
    const pipeline = own.pipeline();
    for (let number = 0; number < 50; number++) {
      pipeline.keep(`user:${number}:logins`, number, 1000).swap(`user:${number}:logins`, number, number + 1).get(`user:${number}:logins`);
    }
    pipeline.sum(2, "user:1:logins", "user:2:logins").give("cnt:none", "memo:purse", 1000);
    const replies = await pipeline.exec();
    for (let number = 0; number < 50; number++) {
      assert.deepEqual(replies.slice(3 * number, 3 * number + 3), [[null, 1000], [null, 1], [null, String(number + 1)]]);
    }
    assert.deepEqual(replies[150], [null, 5]);
    assert.match(replies[151][0].message, /POOR has 0/);
    own.disconnect();
    await client.script("FLUSH");
  }
  // What many change by one script adds up.
  await client.mset("cnt:purse", 1000, "memo:purse", 0);
  await Promise.all(Array.from({ length: 300 }, (_, at) => (at % 2 ? client : other).give("cnt:purse", "memo:purse", 3)));
  assert.deepEqual(await client.mget("cnt:purse", "memo:purse"), ["100", "900"]);
}

const version = (name) => createRequire(import.meta.url)(`./node_modules/${name}/package.json`).version.replace("v", "");
const parts = [
  [`redlock ${version("redlock")}`, [onlyOneHolds, locksAreExtendedAndLost]],
  [`rate-limiter-flexible ${version("rate-limiter-flexible")}`, [limitsByIoredis, limitsByNodeRedis, limitsOfOtherKinds]],
  [`scripts of ioredis ${version("ioredis")}`, [definedCommands, pipelinesOfScripts]],
];
try {
  for (const [name, run] of parts) {
    for (const part of run) {
      await client.flushall();
      await part();
    }
    console.log(`${name}: as it should be`);
  }
} finally {
  clients.forEach((one) => one.disconnect());
}
