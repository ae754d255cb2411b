// Fills a cache with bundles, to measure what they take: node fill.mjs 10000, with REDIS_URL as for server.mjs. `keyfold status`
// says it then.
import { Redis } from "ioredis";
import { Bundles } from "./bundles.mjs";
import { PARTS } from "./server.mjs";

const [, , products = "10000", kind = "product"] = process.argv;
const client = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");
const load = async (id) => ({ name: `Product number ${id}`, price: `${(id * 7) % 1000}.99`, stock: String(id % 50) });
const cache = new Bundles(client, kind, PARTS, load);
for (let id = 0; id < Number(products); id += 100) {
  await Promise.all(Array.from({ length: 100 }, (_, index) => cache.get(id + index)));
}
client.disconnect();
