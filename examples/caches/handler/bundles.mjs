// A cache of bundles. All parts of an entity are read with one MGET, written at one moment, and expire together.
//
//   product:7:at      until when the bundle is fresh, how long loading it took, and whether there is such a product
//   product:7:name    a part, as it is
//   product:7:lock    who loads it now
//
// Whoever finds a fresh bundle has it. Whoever finds a stale one has it too, and sees to a new one behind the answer. Only who
// finds none waits. Of all who want it loaded, in one process or many, one loads it.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

// A lock is given back only by who holds it: it may have expired, and be somebody else's.
const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;

const defaults = {
  freshMs: 60_000, // as long it is taken as it is
  staleMs: 600_000, // as long after that it is still better than waiting
  absentMs: 5_000, // as long is remembered that there is none
  lockMs: 10_000, // longer than any load takes; after that another one may begin
  pollMs: 20, // how often who waits for another's load looks
  beta: 1, // more: earlier refreshes
  now: Date.now,
  random: Math.random,
  failed: console.error, // told of refreshes that nobody waits for
};

export class Bundles {
  #flights = new Map();

  constructor(client, kind, parts, load, options = {}) {
    Object.assign(this, defaults, options, { client, kind, parts, load });
  }

  keys(id) {
    return ["at", ...this.parts].map((part) => `${this.kind}:${id}:${part}`);
  }

  // The entity's parts, or null where there is no such entity.
  async get(id) {
    const seen = await this.#read(id);
    if (!seen) return (await this.#flight(id)).values;
    if (this.#isDue(seen)) this.#flight(id, seen).catch(this.failed);
    return seen.values;
  }

  // One request, and through keyfold one HMGET.
  async #read(id) {
    const [at, ...values] = await this.client.mget(this.keys(id));
    if (at === null) return null;
    const [freshUntil, tookMs, found] = at.split(" ").map(Number);
    if (!found) return { freshUntil, tookMs, values: null };
    // A part alone may be gone, where the server evicts.
    if (values.includes(null)) return null;
    return { freshUntil, tookMs, values: Object.fromEntries(this.parts.map((part, index) => [part, values[index]])) };
  }

  // XFetch: the nearer the end, and the longer loading takes, the likelier one request refreshes before anybody has to wait.
  #isDue({ freshUntil, tookMs }) {
    return this.now() - tookMs * this.beta * Math.log(this.random()) >= freshUntil;
  }

  // Single flight: one load at a time in this process.
  #flight(id, seen) {
    let flight = this.#flights.get(id);
    if (!flight) {
      flight = this.#refresh(id, seen).finally(() => this.#flights.delete(id));
      this.#flights.set(id, flight);
    }
    return flight;
  }

  // And one in all processes. Who has a stale bundle doesn't wait for another's.
  async #refresh(id, seen) {
    const lock = `${this.kind}:${id}:lock`;
    const token = randomUUID();
    while ((await this.client.set(lock, token, "PX", this.lockMs, "NX")) === null) {
      if (seen) return seen;
      await delay(this.pollMs);
      const loaded = await this.#read(id);
      if (loaded) return loaded;
    }
    try {
      // Another may have loaded it since it was looked for.
      const now = await this.#read(id);
      if (now && now.freshUntil !== seen?.freshUntil) return now;
      return await this.#load(id);
    } finally {
      await this.client.eval(RELEASE, 1, lock, token);
    }
  }

  async #load(id) {
    const began = this.now();
    const values = await this.load(id);
    const tookMs = this.now() - began;
    const freshUntil = this.now() + (values ? this.freshMs : this.absentMs);
    const [at, ...keys] = this.keys(id);
    const group = this.client.multi();
    if (values) {
      const livesMs = this.freshMs + this.staleMs;
      group.set(at, `${freshUntil} ${tookMs} 1`, "PX", livesMs);
      this.parts.forEach((part, index) => group.set(keys[index], values[part], "PX", livesMs));
    } else {
      // That there is none is an entry too, or each request for it would ask the database.
      group.set(at, `${freshUntil} ${tookMs} 0`, "PX", this.absentMs).del(keys);
    }
    for (const [error] of await group.exec()) if (error) throw error;
    return { freshUntil, tookMs, values };
  }

  // All of it gone, with one request.
  forget(id) {
    return this.client.del(this.keys(id));
  }

  // All of it gone in a while: sent together, commands on one bucket are one command for the server.
  async expire(id, milliseconds) {
    const pipeline = this.client.pipeline();
    for (const key of this.keys(id)) pipeline.pexpire(key, milliseconds);
    for (const [error] of await pipeline.exec()) if (error) throw error;
  }
}
