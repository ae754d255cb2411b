"use strict";
// Asks /status and /history of the keyfold that gave this page, and shows what they say. Whatever a namespace or a node is
// called, it becomes text and nothing else: by textContent.

const POLL_MS = 5000;
const WITHIN_MS = 4000;
const HOUR_MS = 3600000;
const NONE = "–";
const SVG = "http://www.w3.org/2000/svg";

const at = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const digits = (most) => new Intl.NumberFormat("en-US", { maximumFractionDigits: most });
const known = (value) => value !== null && value !== undefined;

// Numbers as people read them; what isn't known is a dash.
const whole = (number) => (known(number) ? count.format(number) : NONE);
const percent = (share) => (known(share) ? digits(share > 0.9995 || share < 0.1 ? 2 : 1).format(share * 100) + " %" : NONE);

function scaled(number, step, units) {
  let value = number;
  let unit = 0;
  while (Math.abs(value) >= step && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const size = Math.abs(value);
  return digits(unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2).format(value) + " " + units[unit];
}

const bytes = (number) => (known(number) ? scaled(number, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]) : NONE);

function micros(us) {
  if (!known(us)) return NONE;
  return us < 1000 ? digits(0).format(us) + " µs" : us < 1e6 ? digits(us < 1e4 ? 2 : 1).format(us / 1000) + " ms" : digits(2).format(us / 1e6) + " s";
}

function rate(number) {
  return known(number) ? digits(number < 10 ? 1 : 0).format(number) : NONE;
}

function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return seconds + " s";
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return minutes + " min";
  const hours = Math.round(minutes / 60);
  return hours < 48 ? hours + " h" : Math.round(hours / 24) + " days";
}

const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// Characters that control terminals or the direction of writing, shown by their numbers: a name is not to look like another.
const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const visible = (name) => name.replace(hidden, (one) => "\\u{" + one.codePointAt(0).toString(16) + "}");

// Writes only what is another, so that a selection stays and nobody is told the same twice.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A figure, with the number that it stands for.
function figure(id, text, value) {
  const node = at(id);
  say(node, text);
  node.value = known(value) ? String(value) : "";
}

function make(name, text, kind) {
  const node = document.createElement(name);
  if (known(text)) node.textContent = visible(text);
  if (kind) node.className = kind;
  return node;
}

// Rows of a table: the first cell of each is its head. A cell is a text, or [text, number], or [text, number, class].
function fill(id, rows) {
  const body = at(id);
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] || body.insertRow();
    cells.forEach((cell, column) => {
      const [text, value, kind] = Array.isArray(cell) ? cell : [cell];
      let shown = row.cells[column];
      if (!shown) {
        shown = row.appendChild(make(column === 0 ? "th" : "td"));
        if (column === 0) {
          shown.scope = "row";
          shown.dir = "auto";
          shown.appendChild(make("bdi", "", "name"));
        } else {
          shown.appendChild(make("data"));
        }
      }
      say(shown.firstChild, visible(text));
      if (column > 0) {
        shown.firstChild.value = known(value) ? String(value) : "";
        shown.className = kind || "";
      }
    });
  });
}

// Lists are made anew, but only when they say something else.
function list(id, items, draw) {
  const node = at(id);
  const key = JSON.stringify(items);
  if (node.shown === key) return;
  node.shown = key;
  node.replaceChildren(...items.map(draw));
}

function reveal(id, is) {
  at(id).hidden = !is;
}

let status = null;
let history = null;
let seenAt = 0;
let trouble = "";
let told = "";

// What has changed for somebody who doesn't look: said once, politely.
function tell(text) {
  if (text === told) return;
  told = text;
  say(at("said"), text);
}

function showState() {
  const ready = at("ready");
  const away = trouble !== "";
  document.body.classList.toggle("away", away && seenAt > 0);
  const is = away ? "Away" : status ? (status.ready.ok ? "Ready" : "Not ready") : "Asking…";
  say(ready, is);
  ready.className = "badge " + (is === "Ready" ? "good" : status || away ? "bad" : "");
  const ago = seenAt ? span(Date.now() - seenAt) + " ago" : "never";
  say(at("seen"), away ? trouble + "; last seen " + ago : seenAt ? "as of " + ago : "not seen yet");
  document.title = is + " – keyfold";
}

function showWarnings() {
  const errors = new Set(status.ready.reasons.map((reason) => reason.reason));
  const warnings = status.warnings;
  say(at("warning-count"), warnings.length ? "(" + warnings.length + ")" : "");
  reveal("no-warnings", warnings.length === 0);
  say(at("no-warnings"), "There is nothing to warn of.");
  list("warning-list", warnings, (warning) => {
    const bad = errors.has(warning.code);
    const item = make("li", null, bad ? "bad" : "");
    item.append(make("strong", bad ? "Error" : "Warning"));
    if (warning.about) item.append(make("bdi", warning.about, "name"));
    const advice = make("p");
    advice.append(make("b", "What to do: "), visible(warning.advice));
    item.append(make("p", warning.text), advice);
    return item;
  });
  const words = warnings.length === 1 ? "1 warning" : warnings.length + " warnings";
  tell("keyfold is " + (status.ready.ok ? "ready" : "not ready") + ", " + words);
}

function showNow() {
  const { saving, keyfold, clients } = status;
  const usd = status.saved_usd_per_month;
  figure("saved", saving ? (saving.saved_bytes < 0 ? "nothing" : bytes(saving.saved_bytes)) : "not known yet", saving && saving.saved_bytes);
  const parts = [];
  if (saving) {
    const share = saving.plain_bytes > 0 ? saving.saved_bytes / saving.plain_bytes : null;
    parts.push(whole(saving.saved_bytes) + " bytes" + (share === null ? "" : ", " + percent(share) + " of " + bytes(saving.plain_bytes)));
    if (known(usd)) parts.push("$" + digits(2).format(usd) + " a month");
  } else {
    parts.push(keyfold.namespaces.length ? "the first walk over all keys is not over, or another keyfold sweeps" : "no key is folded");
  }
  say(at("saved-more"), parts.join(" · "));
  figure("clients", whole(clients.connected), clients.connected);
  say(at("clients-more"), whole(clients.refused) + " refused since the start");
  const last = history && history.samples.length ? history.samples[history.samples.length - 1] : null;
  const over = last ? "over the last " + span(last.took_ms) : "the first figures come after " + (history ? span(history.every_ms) : "some seconds");
  figure("rate", last ? rate(perSecond(last)) : "…", last && perSecond(last));
  say(at("rate-more"), over + " · " + whole(status.requests) + " since the start");
  figure("p50", last ? micros(last.p50_us) : "…", last && last.p50_us);
  figure("p99", last ? micros(last.p99_us) : "…", last && last.p99_us);
  figure("hits", last ? percent(hitRatio(last)) : "…", last && hitRatio(last));
  say(at("hits-more"), last && hitRatio(last) === null ? "no folded key was read" : over);
}

const perSecond = (sample) => (sample.took_ms > 0 ? (sample.requests * 1000) / sample.took_ms : null);
const hitRatio = (one) => (one.hits + one.misses > 0 ? one.hits / (one.hits + one.misses) : null);

function showNamespaces() {
  const { namespaces, sweep } = status.keyfold;
  reveal("no-namespaces", namespaces.length === 0);
  const rows = namespaces.map((one) => {
    const held = one.contents;
    const saved = held ? held.plain_bytes - held.stored_bytes : null;
    const codec = one.codec;
    const ratio = codec && codec.value_bytes > 0 ? codec.stored_bytes / codec.value_bytes : null;
    return [
      one.keys,
      [held ? whole(held.keys) : NONE, held && held.keys],
      [held && held.buckets ? digits(1).format(held.keys / held.buckets) : NONE, held && held.buckets],
      [bytes(saved), saved],
      [codec ? (ratio === null ? codec.name : codec.name + ", " + percent(ratio)) : NONE, ratio],
      [whole(one.reads), one.reads],
      [whole(one.hits), one.hits],
      [whole(one.misses), one.misses],
      [whole(one.writes), one.writes],
      [whole(one.spills), one.spills],
      [status.keyfold.cache ? whole(one.evicted) : NONE, one.evicted],
      [one.placement || NONE, null, "left"],
    ];
  });
  fill("namespace-rows", rows);
  const walk = sweep.walk_ms ? "Keys and what is saved are as the last whole walk found them; it took " + span(sweep.walk_ms) + ". " : "";
  say(at("walk"), namespaces.length ? walk + "Counts are of this keyfold, since its start " + span(status.now_ms - status.started_ms) + " ago." : "");
}

const coldPerSecond = (sample) => (sample.took_ms > 0 ? ((sample.evicted - sample.evicted_new) * 1000) / sample.took_ms : null);
const newPerSecond = (sample) => (sample.took_ms > 0 ? (sample.evicted_new * 1000) / sample.took_ms : null);

function showCache() {
  const { cache } = status.keyfold;
  reveal("cache-section", known(cache));
  if (!cache) return;
  const last = history && history.samples.length ? history.samples[history.samples.length - 1] : null;
  const over = last ? "over the last " + span(last.took_ms) : "the first figures come soon";
  figure("cache-used", bytes(cache.used_bytes), cache.used_bytes);
  const share = cache.max_bytes > 0 ? cache.used_bytes / cache.max_bytes : null;
  say(at("cache-used-more"), share === null ? "no limit: max_memory is a share of the server's maxmemory, which isn't known or 0" : percent(share) + " of " + bytes(cache.max_bytes) + ", beyond which keys leave");
  const evicted = last && coldPerSecond(last) + newPerSecond(last);
  figure("cache-evicted", last ? rate(evicted) : "…", evicted);
  say(at("cache-evicted-more"), last ? rate(coldPerSecond(last)) + " cold, " + rate(newPerSecond(last)) + " new · " + over : over);
  figure("cache-hits", last ? percent(hitRatio(last)) : "…", last && hitRatio(last));
  say(at("cache-hits-more"), last && hitRatio(last) === null ? "no folded key was read" : over);
  const ages = cache.evicted_ages;
  figure("cache-age", known(ages.median_ms) ? span(ages.median_ms) : NONE, ages.median_ms);
  say(at("cache-age-more"), known(ages.median_ms) ? "median since a key was asked for last, of " + whole(ages.keys) : "no key of the sample has left");
  figure("cache-keys", whole(cache.keys), cache.keys);
  say(at("cache-keys-more"), "about; counted in " + bytes(cache.counters_bytes));
  const parts = ["By " + cache.policy + "; " + (cache.evicts ? "this keyfold removes keys." : "another keyfold removes keys, and counts them.")];
  if (cache.plain_evicted) parts.push(whole(cache.plain_evicted) + " plain keys left.");
  parts.push(whole(cache.refused) + " writes were refused as memory was full, and servers evicted " + whole(cache.evicted_by_server) + " keys by themselves, since the start.");
  say(at("cache-about"), parts.join(" "));
}

function showMoves() {
  const moving = status.keyfold.namespaces.filter((one) => one.moving);
  reveal("moves-section", moving.length > 0);
  const items = moving.map((one) => ({ keys: one.keys, from: one.former, to: one.placement, held: one.contents && one.contents.keys }));
  list("move-list", items, (move) => {
    const item = make("li");
    item.append(make("bdi", move.keys, "name"));
    item.append(make("p", (move.from ? "from " + move.from + " " : "") + "to " + move.to));
    const held = known(move.held) ? whole(move.held) + " keys are in buckets by the last walk. " : "";
    item.append(make("p", held + "Each key lies in one of both places.", "quiet"));
    return item;
  });
  const progress = moving.length > 0 ? status.move_progress : null;
  reveal("move-progress", known(progress));
  if (known(progress)) showProgress(progress);
}

function showProgress(progress) {
  const counted = progress.keys > 0;
  const moved = counted ? whole(progress.moved) + " of " + whole(progress.keys) + " keys moved" : whole(progress.moved) + " keys moved";
  const left = known(progress.left_ms) ? ", about " + span(progress.left_ms) + " left" : "";
  const going = moved + ", " + whole(progress.keys_per_second) + " a second" + left + ".";
  const silent = "Stopped: " + moved + ", and no word for " + span(progress.silent_ms) + ". All keys are reachable; run the same keyfold fold or unfold again, and it goes on.";
  say(at("move-said"), progress.stopped ? silent : going);
  const bar = at("move-bar");
  bar.hidden = !counted;
  bar.max = Math.max(progress.keys, 1);
  bar.value = Math.min(progress.moved, progress.keys);
}

function showServers() {
  const { servers, cluster, keyfold } = status;
  reveal("no-servers", servers.length === 0);
  fill("server-rows", servers.map((one) => [
    one.node,
    [one.name + " " + one.version],
    [bytes(one.used_memory), one.used_memory],
    [one.max_memory === 0 ? "no limit" : bytes(one.max_memory), one.max_memory],
    [whole(one.listpack_entries), one.listpack_entries],
    [known(one.listpack_value) ? whole(one.listpack_value) + " B" : NONE, one.listpack_value],
  ]));
  reveal("cluster", known(cluster));
  if (cluster) {
    say(at("cluster"), "A cluster of " + whole(cluster.primaries) + " primaries and " + whole(cluster.replicas) + " replicas; of 16,384 slots " + whole(cluster.served_slots) + " are served" + (cluster.held_slots ? ", " + whole(cluster.held_slots) + " wait" : "") + ".");
  }
  const replicas = keyfold.replicas ? keyfold.replicas.replicas : [];
  reveal("replicas", replicas.length > 0);
  fill("replica-rows", replicas.map((one) => [
    one.address,
    [one.of],
    [whole(one.reads), one.reads],
    [whole(one.returned), one.returned],
    [known(one.lag_ms) ? span(one.lag_ms) : NONE, one.lag_ms],
    [one.unfit ? "not read from: " + one.unfit : "read from", null, "left"],
  ]));
  const sentinels = keyfold.sentinels;
  reveal("sentinels", known(sentinels));
  if (sentinels) {
    const primary = sentinels.primary ? sentinels.primary.address : "nobody that was found";
    say(at("sentinels"), "Sentinels " + sentinels.asked + " name " + primary + "; it changed " + whole(sentinels.changes) + " times.");
  }
}

function showAbout() {
  const { version, server, layout } = status.keyfold;
  say(at("behind"), visible((server ? "before " + server + ", " : "") + "up " + span(status.now_ms - status.started_ms)));
  say(at("about"), "keyfold " + version + ", " + status.name + " · layout " + layout.epoch + ", " + layout.hash);
}

// Charts

function element(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (known(text)) node.textContent = text;
  return node;
}

// A round number at or above the greatest.
function ceiling(greatest, least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(greatest, least)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((top) => top >= greatest) || greatest;
}

class Chart {
  constructor(name, title, lines, show, fixed) {
    this.node = at("chart-" + name);
    this.sum = at("sum-" + name);
    Object.assign(this, { title, lines, show, fixed, chosen: null, samples: [] });
    const node = this.node;
    node.setAttribute("role", "slider");
    node.setAttribute("tabindex", "0");
    node.setAttribute("aria-valuemin", "0");
    node.addEventListener("pointermove", (event) => this.choose(this.nearest(event)));
    node.addEventListener("pointerleave", () => this.choose(null));
    node.addEventListener("blur", () => this.choose(null));
    node.addEventListener("keydown", (event) => {
      const last = this.samples.length - 1;
      const from = this.chosen === null ? last : this.chosen;
      const to = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, PageUp: from + 30, PageDown: from - 30, Home: 0, End: last }[event.key];
      if (to === undefined || last < 0) return;
      event.preventDefault();
      this.choose(Math.min(last, Math.max(0, to)));
    });
    new ResizeObserver(() => this.draw()).observe(node);
  }

  x(ms) {
    return this.left + ((ms - this.from) / HOUR_MS) * this.wide;
  }

  nearest(event) {
    const x = event.clientX - this.node.getBoundingClientRect().left;
    let best = null;
    this.samples.forEach((sample, index) => {
      if (best === null || Math.abs(this.x(sample.at_ms) - x) < Math.abs(this.x(this.samples[best].at_ms) - x)) best = index;
    });
    return best;
  }

  choose(index) {
    if (this.chosen === index) return;
    this.chosen = index;
    this.draw();
  }

  values(sample) {
    return this.lines.map(([name, read]) => (name ? name + " " : "") + this.show(read(sample))).join(", ");
  }

  take(samples, now) {
    this.samples = samples;
    this.from = now - HOUR_MS;
    if (this.chosen !== null && this.chosen >= samples.length) this.chosen = null;
    this.draw();
  }

  // Said in words too, under the drawing and to who can't see it.
  summary() {
    if (this.chosen !== null) {
      const sample = this.samples[this.chosen];
      return clock(sample.at_ms) + ": " + this.values(sample);
    }
    const last = this.samples[this.samples.length - 1];
    const parts = this.lines.map(([name, read]) => {
      const all = this.samples.map(read).filter(known);
      if (!all.length) return (name ? name + ": " : "") + "nothing to show yet";
      const most = Math.max(...all);
      const least = Math.min(...all);
      return (name ? name + ": " : "") + "now " + this.show(read(last)) + ", least " + this.show(least) + ", most " + this.show(most);
    });
    return this.samples.length ? parts.join("; ") : "nothing to show yet";
  }

  draw() {
    const { node, samples } = this;
    const { width, height } = node.getBoundingClientRect();
    const summary = this.summary();
    say(this.sum, summary);
    node.setAttribute("aria-valuetext", summary);
    node.setAttribute("aria-valuemax", String(Math.max(0, samples.length - 1)));
    node.setAttribute("aria-valuenow", String(this.chosen === null ? Math.max(0, samples.length - 1) : this.chosen));
    if (!width) return;
    const values = samples.flatMap((sample) => this.lines.map(([, read]) => read(sample))).filter(known);
    const top = this.fixed || ceiling(Math.max(0, ...values), 1);
    const under = this.fixed ? 0 : Math.min(0, ...values);
    const bottom = under < 0 ? -ceiling(-under, 1) : 0;
    this.left = 64;
    this.wide = width - this.left - 10;
    const high = height - 30;
    const y = (value) => 8 + (1 - (value - bottom) / (top - bottom)) * high;
    const drawn = [];
    for (const value of bottom < 0 ? [bottom, 0, top] : [0, top / 2, top]) {
      drawn.push(element("line", { class: "grid", x1: this.left, x2: width - 10, y1: y(value), y2: y(value) }));
      drawn.push(element("text", { x: this.left - 6, y: y(value) + 4, "text-anchor": "end" }, this.show(value)));
    }
    for (const [minutes, anchor] of [[60, "start"], [30, "middle"], [0, "end"]]) {
      const text = minutes ? minutes + " min ago" : "now";
      drawn.push(element("text", { x: this.left + this.wide * (1 - minutes / 60), y: height - 5, "text-anchor": anchor }, text));
    }
    this.lines.forEach(([, read], line) => {
      for (const run of this.runs(read)) {
        const points = run.map(([ms, value]) => this.x(ms).toFixed(1) + " " + y(value).toFixed(1));
        if (run.length === 1) points.push(points[0].replace(/^\S+/, (x) => (Number(x) + 1.5).toFixed(1)));
        if (line === 0 && this.lines.length === 1) {
          const area = "M" + this.x(run[0][0]).toFixed(1) + " " + y(0).toFixed(1) + "L" + points.join("L") + "L" + points[points.length - 1].split(" ")[0] + " " + y(0).toFixed(1) + "Z";
          drawn.push(element("path", { class: "area", d: area }));
        }
        drawn.push(element("path", { class: line === 0 ? "one" : "two", d: "M" + points.join("L") }));
      }
    });
    if (this.chosen !== null) {
      const x = this.x(samples[this.chosen].at_ms);
      drawn.push(element("line", { class: "mark", x1: x, x2: x, y1: 8, y2: 8 + high }));
    }
    node.setAttribute("viewBox", "0 0 " + width + " " + height);
    node.replaceChildren(...drawn);
  }

  // Stretches without a gap: what isn't known, and a time in which nobody took samples, leave one.
  runs(read) {
    const runs = [];
    let before = null;
    for (const sample of this.samples) {
      const value = read(sample);
      if (sample.at_ms < this.from || !known(value)) {
        before = null;
        continue;
      }
      const follows = before !== null && sample.at_ms - before < history.every_ms * 3;
      if (follows) runs[runs.length - 1].push([sample.at_ms, value]);
      else runs.push([[sample.at_ms, value]]);
      before = sample.at_ms;
    }
    return runs;
  }
}

// As it is now: it is seldom changed.
function limit(sample) {
  const cache = status && status.keyfold.cache;
  return cache && cache.max_bytes > 0 && known(sample.cache_bytes) ? cache.max_bytes : null;
}

const charts = [
  new Chart("rate", "Commands a second", [["", perSecond]], rate),
  new Chart("latency", "Latency", [["p50", (one) => one.p50_us], ["p99", (one) => one.p99_us]], micros),
  new Chart("hits", "Hit ratio", [["", hitRatio]], percent, 1),
  new Chart("saved", "Saved", [["", (one) => one.saved_bytes]], bytes),
  new Chart("memory", "Memory of the cache", [["used", (one) => one.cache_bytes], ["limit", limit]], bytes),
  new Chart("evicted", "Evicted a second", [["cold", coldPerSecond], ["new", newPerSecond]], rate),
];

function showHour() {
  const { samples, now_ms: now } = history;
  charts.forEach((chart) => chart.take(samples, now));
  const rows = [];
  for (let until = now; until > now - HOUR_MS; until -= 300000) {
    const part = samples.filter((one) => one.at_ms <= until && one.at_ms > until - 300000);
    if (!part.length) continue;
    const sum = (read) => part.reduce((all, one) => all + read(one), 0);
    const of = (read) => part.map(read).filter(known);
    const p50 = of((one) => one.p50_us).sort((one, other) => one - other);
    const p99 = of((one) => one.p99_us);
    const saved = of((one) => one.saved_bytes);
    rows.push([
      clock(until),
      [rate((sum((one) => one.requests) * 1000) / Math.max(1, sum((one) => one.took_ms)))],
      [p50.length ? micros(p50[Math.floor(p50.length / 2)]) : NONE],
      [p99.length ? micros(Math.max(...p99)) : NONE],
      [percent(hitRatio({ hits: sum((one) => one.hits), misses: sum((one) => one.misses) }))],
      [saved.length ? bytes(saved[saved.length - 1]) : NONE],
    ]);
  }
  fill("hour-rows", rows);
}

async function ask(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(WITHIN_MS), cache: "no-store" });
  if (!answer.ok) throw new Error(answer.status === 401 ? "it wants the token again: load the page anew" : "it answers " + answer.status);
  return answer.json();
}

function show() {
  showWarnings();
  showNow();
  showCache();
  showMoves();
  showNamespaces();
  showServers();
  showAbout();
}

let asking = false;

async function poll() {
  if (asking || document.hidden) return;
  asking = true;
  try {
    const next = await ask("status");
    const isAnother = !status || next.started_ms !== status.started_ms;
    const last = history && history.samples[history.samples.length - 1];
    const isDue = isAnother || !last || next.now_ms - last.at_ms >= history.every_ms;
    if (isDue) history = await ask("history");
    status = next;
    seenAt = Date.now();
    trouble = "";
    show();
    if (isDue) showHour();
  } catch (error) {
    trouble = error instanceof TypeError || error.name === "TimeoutError" || error.name === "AbortError" ? "no answer" : error.message;
    tell("keyfold is away: " + trouble);
  }
  asking = false;
  showState();
}

document.addEventListener("visibilitychange", poll);
setInterval(poll, POLL_MS);
setInterval(showState, 1000);
poll();
