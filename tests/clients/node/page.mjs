// The page of the keyfold whose operators' address is in KEYFOLD_METRICS, in a browser of this machine, while clients ask
// KEYFOLD_ADDR: it asks nobody else, keeps its policy, fits phones, bears hostile names, goes on while keyfold is away, and
// says what /status and INFO say to the last digit. Pictures of it are left in pictures/. Where there is no browser it says
// so, and is passed over.
import assert from "node:assert/strict";
import { accessSync, constants, mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

function browserOnPath() {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    for (const name of NAMES) {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return join(folder, name);
      } catch {
        // The next one.
      }
    }
  }
  return process.env.CHROME_PATH;
}

const executablePath = browserOnPath();
if (!executablePath) {
  console.log("page: passed over, there is no browser here (chromium or google-chrome on PATH, or CHROME_PATH)");
  process.exit(0);
}

const base = new URL("/", process.env.KEYFOLD_METRICS).href;
const address = process.env.KEYFOLD_ADDR;
const colon = address.lastIndexOf(":");
const client = new Redis({ host: address.slice(0, colon), port: Number(address.slice(colon + 1)), commandTimeout: 20_000 });
const pictures = new URL("pictures/", import.meta.url);
mkdirSync(pictures, { recursive: true });

// A browser in a container has no room for its own sandbox.
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

// Opens the page; what it complains of is collected, and so is whom it asks.
async function open(options, prepare) {
  const page = await browser.newPage(options);
  page.complaints = [];
  page.asked = new Set();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()));
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("dialog", (dialog) => page.complaints.push(dialog.message()) && dialog.dismiss());
  page.on("request", (request) => page.asked.add(request.url()));
  await prepare?.(page);
  await page.goto(base);
  await page.waitForFunction(() => document.title.endsWith("– keyfold") && !document.title.startsWith("Asking"));
  return page;
}

async function load(rounds) {
  for (let round = 0; round < rounds; round++) {
    const pipeline = client.pipeline();
    for (let number = 0; number < 200; number++) {
      pipeline.set(`user:${round * 100 + number}:logins`, number);
      pipeline.get(`user:${round * 150 + number * 2}:logins`);
    }
    await pipeline.exec();
  }
}

// Rows of a table: the head's text, and the numbers behind the cells.
const rows = (page, id) =>
  page.$$eval(`#${id} tr`, (all) =>
    all.map((row) => ({ head: row.cells[0].textContent, numbers: [...row.cells].slice(1).map((cell) => cell.firstChild.value), texts: [...row.cells].slice(1).map((cell) => cell.textContent) })));

async function looksTheSameEverywhere() {
  const views = {
    light: { viewport: { width: 1200, height: 900 }, colorScheme: "light" },
    dark: { viewport: { width: 1200, height: 900 }, colorScheme: "dark" },
    phone: { viewport: { width: 360, height: 740 }, colorScheme: "light" },
  };
  const grounds = {};
  for (const [name, options] of Object.entries(views)) {
    const page = await open(options);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= options.viewport.width, `${name} is ${wide} wide`);
    grounds[name] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.screenshot({ path: new URL(`page-${name}.png`, pictures).pathname, fullPage: true });
    assert.deepEqual(page.complaints, [], name);
    const elsewhere = [...page.asked].filter((url) => !url.startsWith(base));
    assert.deepEqual(elsewhere, [], "it asks nobody else");
    await page.close();
  }
  assert.notEqual(grounds.light, grounds.dark);
}

async function canBeReadWithoutEyesOrMouse() {
  const page = await open({ viewport: { width: 800, height: 600 } });
  for (const landmark of ["header", "main", "footer", "nav"]) assert.equal(await page.locator(landmark).count(), 1, landmark);
  assert.equal(await page.locator("h1").count(), 1);
  for (const table of await page.locator("table").all()) {
    assert.ok((await table.locator("thead th[scope=col]").count()) > 1);
    assert.equal(await table.locator("tbody tr > :first-child:not(th[scope=row])").count(), 0);
  }
  for (const chart of await page.locator("svg").all()) {
    assert.ok(await chart.getAttribute("aria-labelledby"));
    assert.match(await chart.getAttribute("aria-valuetext"), /now .*least .*most|nothing to show yet/);
  }
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.locator("#chart-rate").focus();
  await page.keyboard.press("Home");
  assert.match(await page.locator("#chart-rate").getAttribute("aria-valuetext"), /^\d.*: /, "a key tells of one moment");
  await page.close();
}

async function bearsHostileNames() {
  const names = ["<script>alert(1)</script><img src=x onerror=alert(2)>", "\"'><b>bold</b>&amp;", "\u202egnp.exe\u0007\u001b[31m", "漢字 שלום", "x".repeat(512)];
  const page = await open({ viewport: { width: 360, height: 740 } }, (page) =>
    page.route("**/status", async (route) => {
      const status = await (await route.fetch()).json();
      const like = status.keyfold.namespaces[0];
      status.keyfold.namespaces = names.map((keys) => ({ ...like, keys, moving: true, former: keys, placement: keys }));
      status.warnings = names.map((about) => ({ code: "x", about, text: about, advice: about }));
      status.servers.forEach((server) => (server.version = names[0]));
      status.keyfold.server = names[0];
      await route.fulfill({ json: status });
    }));
  const shown = (await rows(page, "namespace-rows")).map((row) => row.head);
  assert.deepEqual(shown, [names[0], names[1], "\\u{202e}gnp.exe\\u{7}\\u{1b}[31m", names[3], names[4]]);
  assert.equal(await page.locator("main img, main script, #namespace-rows b, .warnings img").count(), 0);
  assert.equal(await page.locator(".warnings li").count(), names.length);
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  await page.screenshot({ path: new URL("page-hostile.png", pictures).pathname, fullPage: true });
  assert.deepEqual(page.complaints, []);
  await page.close();
}

async function goesOnWhileKeyfoldIsAway() {
  const page = await open({ viewport: { width: 800, height: 600 } });
  const figure = await page.locator("#clients").textContent();
  await page.route("**/status", (route) => route.abort());
  await page.waitForFunction(() => document.title.startsWith("Away"), null, { timeout: 20_000 });
  assert.match(await page.locator("#seen").textContent(), /^no answer; last seen \d+ s ago$/);
  assert.equal(await page.locator("#clients").textContent(), figure, "what was seen stays");
  assert.match(await page.locator("#said").textContent(), /away/);
  await page.unroute("**/status");
  await page.waitForFunction(() => document.title.startsWith("Ready"), null, { timeout: 20_000 });
  await page.close();
}

async function saysWhatStatusAndInfoSay() {
  const page = await open({ viewport: { width: 1200, height: 900 } });
  const busy = load(40);
  await wait(1000);
  await busy;
  // Until a walk has found all, and nothing changes any more.
  let status = null;
  let before = "";
  for (let same = 0; same < 3; ) {
    await wait(3000);
    status = await (await fetch(new URL("status", base))).json();
    const now = JSON.stringify([status.saving, status.requests, status.keyfold.namespaces.map((one) => [one.reads, one.writes])]);
    same = now === before ? same + 1 : 0;
    before = now;
  }
  await page.reload();
  await page.waitForFunction(() => document.title.startsWith("Ready"));
  assert.ok(status.saving && status.saving.keys > 0);
  assert.equal(await page.locator("#saved").getAttribute("value"), String(status.saving.saved_bytes));
  assert.ok((await page.locator("#saved-more").textContent()).startsWith(`${status.saving.saved_bytes.toLocaleString("en-US")} bytes`));
  assert.ok((await page.locator("#rate-more").textContent()).endsWith(`${status.requests.toLocaleString("en-US")} since the start`));
  const info = await client.info("keyfold");
  const fields = (index, kind) => Object.fromEntries(info.match(new RegExp(`^keyfold_${kind}_${index}:.*$`, "m"))?.[0].split(",").slice(kind === "namespace" ? 1 : 0).map((part) => part.split(":").at(-1).split("=")) ?? []);
  const shown = await rows(page, "namespace-rows");
  assert.equal(shown.length, status.keyfold.namespaces.length);
  for (const [index, { head, numbers, texts }] of shown.entries()) {
    const one = status.keyfold.namespaces[index];
    const counts = [one.reads, one.hits, one.misses, one.writes, one.spills].map(String);
    // Names that hold no characters to be shown by their numbers.
    if (!/\p{C}/u.test(one.keys)) assert.equal(head, one.keys);
    assert.deepEqual(numbers.slice(4, 9), counts, head);
    assert.deepEqual(texts.slice(4, 9), counts.map((count) => Number(count).toLocaleString("en-US")), head);
    const said = fields(index, "namespace");
    assert.deepEqual([said.reads, said.hits, said.misses, said.writes, said.spills], counts, head);
    const held = fields(index, "contents");
    assert.equal(numbers[0], held.keys ?? "", head);
    assert.equal(numbers[2], held.keys === undefined ? "" : String(held.plain_bytes - held.stored_bytes), head);
  }
  await page.close();
}

try {
  await load(20);
  // A keyfold that was just started has no history yet.
  while ((await (await fetch(new URL("history", base))).json()).samples.length < 2) await wait(1000);
  await looksTheSameEverywhere();
  await canBeReadWithoutEyesOrMouse();
  await bearsHostileNames();
  await goesOnWhileKeyfoldIsAway();
  await saysWhatStatusAndInfoSay();
  const version = browser.version();
  console.log(`Chromium ${version}: the page says what /status and INFO say, asks nobody else and bears hostile names`);
} finally {
  await browser.close();
  client.disconnect();
}
