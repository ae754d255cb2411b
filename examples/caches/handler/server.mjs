// Products by HTTP, cached: GET /product/7. Run by itself, its database is a function that takes half a second.
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { Bundles } from "./bundles.mjs";

export const PARTS = ["name", "price", "stock"];

export function handler(bundles) {
  return async (request, response) => {
    const answer = (status, body) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    // As in the layout: no sign, no leading zeros. Another key would stay plain.
    const id = /^\/product\/(0|[1-9][0-9]{0,17})$/.exec(request.url)?.[1];
    try {
      const product = id === undefined ? null : await bundles.get(id);
      if (product) answer(200, product);
      else answer(404, { error: "no such product" });
    } catch (error) {
      console.error(error);
      answer(503, { error: "try again" });
    }
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const client = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6380");
  const load = async (id) => {
    await delay(500);
    return Number(id) < 1_000_000 ? { name: `Product ${id}`, price: "9.99", stock: "12" } : null;
  };
  createServer(handler(new Bundles(client, "product", PARTS, load))).listen(8080, "127.0.0.1");
}
