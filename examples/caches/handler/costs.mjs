// What requests on a bundle cost: the commands that the server behind keyfold gets, and the bytes to and from it. Of five tries
// the least, as keyfold also looks after itself. KEYFOLD_ADDR and KEYFOLD_SERVER are as for the session.
import { Redis } from "ioredis";

const [host, port] = process.env.KEYFOLD_ADDR.split(":");
const client = new Redis({ host, port: Number(port) });
const server = new Redis(process.env.KEYFOLD_SERVER.replace("unix://", ""));
const OWN = ["info", "time", "select", "client", "hello", "command"];
const keys = ["at", "name", "price", "stock"].map((part) => `product:7:${part}`);
const lock = "product:7:lock";
const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;
const each = (group, command) => keys.reduce((all, key) => all[command[0]](key, ...command.slice(1)), group).exec();

const requests = {
  "nothing": async () => {},
  "MSET": () => client.mset(keys.flatMap((key) => [key, "some value"])),
  "SET PX of each, in a pipeline": () => each(client.pipeline(), ["set", "some value", "PX", 60_000]),
  "SET PX of each, in MULTI": () => each(client.multi(), ["set", "some value", "PX", 60_000]),
  "MSETEX": () => client.call("MSETEX", 4, ...keys.flatMap((key) => [key, "some value"]), "PX", 60_000),
  "MGET": () => client.mget(keys),
  "GET of each, in a pipeline": () => each(client.pipeline(), ["get"]),
  "GET of each, one after the other": async () => {
    for (const key of keys) await client.get(key);
  },
  "PEXPIRE of each, in a pipeline": () => each(client.pipeline(), ["pexpire", 50_000]),
  "PEXPIRE of each, in MULTI": () => each(client.multi(), ["pexpire", 50_000]),
  "DEL of all": () => client.del(keys),
  "SET NX PX, the lock taken": async () => client.set(lock, "token", "PX", 60_000, "NX"),
  "SET NX PX, the lock refused": async () => client.set(lock, "token", "PX", 60_000, "NX"),
  "the script that gives it back": () => client.eval(RELEASE, 1, lock, "token"),
};

async function stand() {
  const told = await server.info("commandstats");
  const calls = Object.fromEntries([...told.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name, calls]) => [name, Number(calls)]));
  const stats = await server.info("stats");
  const bytes = ["input", "output"].map((way) => Number(new RegExp(`total_net_${way}_bytes:(\\d+)`).exec(stats)[1]));
  return { calls, bytes, asked: stats.length + told.length };
}

const version = /(?:valkey|redis)_version:(.*)\r/.exec(await server.info("server"))[1];
console.log(`server ${version}, a bundle of ${keys.length} keys; bytes to it, from it, and its commands\n`);
const least = new Map();
for (let round = 0; round < 6; round++) {
  for (const [name, request] of Object.entries(requests)) {
    const before = await stand();
    await request();
    const after = await stand();
    const calls = Object.entries(after.calls)
      .map(([command, count]) => [command, count - (before.calls[command] ?? 0)])
      .filter(([command, count]) => count > 0 && !OWN.includes(command));
    const [sent, got] = after.bytes.map((count, way) => count - before.bytes[way]);
    const total = calls.reduce((sum, [, count]) => sum + count, 0);
    // In the first round scripts are not known yet.
    if (round > 0 && (!least.has(name) || total < least.get(name).total)) {
      least.set(name, { total, sent, got: got - before.asked, calls: calls.map(([command, count]) => `${count} ${command}`).join(", ") });
    }
  }
}
const { sent: askSent, got: askGot } = least.get("nothing");
least.delete("nothing");
for (const [name, { sent, got, calls }] of least) {
  console.log(`${name.padEnd(36)} ${String(sent - askSent).padStart(6)} ${String(got - askGot).padStart(6)}   ${calls}`);
}
client.disconnect();
server.disconnect();
