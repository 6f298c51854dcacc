"use strict";

// The page asks for /status.json once a second. All text enters the page as text, never as HTML.

const SAMPLES = 300;
const WINDOW = 10;
const samples = [];
const $ = (id) => document.getElementById(id);

// Elements.

function complete(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const make = (name, attributes = {}, ...children) => complete(document.createElement(name), attributes, children);
const draw = (name, attributes = {}, ...children) =>
  complete(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// Numbers in words.

function short(value) {
  if (value === null) return "–";
  if (value >= 1e9) return (value / 1e9).toFixed(1) + " G";
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value.toFixed(1);
}

function bytes(value) {
  if (value === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1000 && unit < 4) { value /= 1024; unit += 1; }
  return (value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)) + " " + units[unit];
}

function milliseconds(value) {
  if (value === null) return "–";
  if (value < 1) return Math.round(value * 1000) + " µs";
  if (value < 10) return value.toFixed(1) + " ms";
  if (value < 1000) return Math.round(value) + " ms";
  return (value / 1000).toFixed(value < 10000 ? 1 : 0) + " s";
}

function duration(seconds) {
  if (seconds < 60) return seconds + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  if (seconds < 86400) return Math.floor(seconds / 3600) + " h " + Math.floor(seconds % 3600 / 60) + " min";
  return Math.floor(seconds / 86400) + " d " + Math.floor(seconds % 86400 / 3600) + " h";
}

const percent = (share) => share === null ? "–" : (share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0) + " %";

// Figures of the last WINDOW seconds before a sample.

function earlier(index) {
  let from = index;
  while (from > 0 && samples[index].at - samples[from - 1].at <= WINDOW * 1000) from -= 1;
  return from;
}

function change(index, read) {
  const from = earlier(index);
  if (from === index) return null;
  return Math.max(0, read(samples[index].stats) - read(samples[from].stats));
}

function rate(index, read) {
  const count = change(index, read);
  return count === null ? null : count * 1000 / (samples[index].at - samples[earlier(index)].at);
}

// The quantile of a duration in milliseconds, interpolated within a bucket of powers of two.
function quantile(index, name, share) {
  const now = samples[index].stats.histograms?.[name];
  const from = earlier(index);
  if (!now || from === index) return null;
  const before = samples[from].stats.histograms?.[name]?.buckets ?? [];
  const counts = now.buckets.map((count, bucket) => count - (before[bucket] ?? 0));
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total <= 0) return null;
  let left = total * share;
  for (let bucket = 0; bucket < counts.length; bucket += 1) {
    if (left <= counts[bucket]) {
      const low = bucket === 0 ? 0 : 2 ** (bucket - 1);
      return (low + (2 ** bucket - low) * left / counts[bucket]) / 1000;
    }
    left -= counts[bucket];
  }
  return null;
}

const answered = (s) => s.memoryHits + s.diskHits + s.networkLoads + s.fileLoads + s.coalesced + s.sharedHits + s.failed;
const hits = (s) => s.memoryHits + s.diskHits + s.coalesced + s.sharedHits;
const work = (users) => users.reduce((sum, user) => sum + user.downloadMilliseconds + user.decodeMilliseconds, 0);

// Charts.

const charts = [
  { title: "Requests", unit: "per second", format: short, series: [
    { name: "memory hits", value: (i) => rate(i, (s) => s.memoryHits), filled: true },
    { name: "disk hits", value: (i) => rate(i, (s) => s.diskHits) },
    { name: "loads", value: (i) => rate(i, (s) => s.networkLoads + s.fileLoads) },
    { name: "failed", value: (i) => rate(i, (s) => s.failed) },
    { name: "joined", value: (i) => rate(i, (s) => s.coalesced) },
    { name: "shared hits", value: (i) => samples[i].stats.sharedServers ? rate(i, (s) => s.sharedHits) : null, optional: true }] },
  { title: "Latency", unit: "of the last 10 s, logarithmic", format: milliseconds, logarithmic: true, series: [
    { name: "load, 95 %", value: (i) => quantile(i, "load", 0.95), filled: true },
    { name: "load, median", value: (i) => quantile(i, "load", 0.5) },
    { name: "decode, 95 %", value: (i) => quantile(i, "decode", 0.95) },
    { name: "event loop, 99 %", value: (i) => quantile(i, "loop", 0.99) }] },
  { title: "Memory", unit: "bytes", format: bytes, binary: true, series: [
    { name: "images", value: (i) => samples[i].stats.memoryBytes, filled: true },
    { name: "held by clients", value: (i) => samples[i].stats.leasedBytes },
    { name: "reserved", value: (i) => samples[i].stats.reservedBytes },
    { name: "limit", value: (i) => samples[i].stats.memoryLimitBytes, limit: true }] },
  { title: "Jobs", unit: "at once", format: short, series: [
    { name: "queued", value: (i) => samples[i].stats.queued, filled: true },
    { name: "downloads", value: (i) => samples[i].stats.runningJobs?.download ?? 0 },
    { name: "decodings", value: (i) => samples[i].stats.runningJobs?.decode ?? 0 }] },
];

const LEFT = 58, RIGHT = 8, TOP = 8, BOTTOM = 20;
// The samples between the edges: at least a minute, so that the first ones are seen.
const span = () => Math.max(60, samples.length);

function build(chart) {
  const id = "chart-" + chart.title.toLowerCase();
  chart.output = make("output", { "aria-live": "polite" });
  chart.svg = draw("svg", { class: "plot", role: "img", tabindex: "0", "aria-describedby": id });
  chart.legend = make("ul", { class: "legend", id });
  chart.series.forEach((series, index) => {
    const line = draw("line", { x1: 1, y1: 4, x2: 17, y2: 4, class: "series " + (series.limit ? "limit" : "s" + (index + 1)) });
    const key = draw("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" }, line);
    series.now = make("b");
    series.entry = make("li", {}, key, series.name + " ", series.now);
    chart.legend.append(series.entry);
  });
  chart.table = make("table");
  chart.details = make("details", {}, make("summary", {}, "Data as a table"), chart.table);
  chart.details.addEventListener("toggle", () => tabulate(chart));
  const title = make("h2", {}, chart.title + " ", make("span", { class: "unit" }, chart.unit));
  $("charts").append(
    make("figure", {}, make("figcaption", {}, title, chart.output), chart.legend, chart.svg, chart.details));
  chart.svg.addEventListener("pointermove", (event) => {
    const box = chart.svg.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    point(chart, Math.round(share * (span() - 1)) - (span() - samples.length));
  });
  chart.svg.addEventListener("pointerleave", () => point(chart, null));
  chart.svg.addEventListener("blur", () => point(chart, null));
  chart.svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -SAMPLES, End: SAMPLES }[event.key];
    if (event.key === "Escape") point(chart, null);
    if (!step) return;
    event.preventDefault();
    point(chart, (chart.cursor ?? samples.length - 1) + step);
  });
}

function point(chart, index) {
  if (index !== null && (samples.length === 0 || Number.isNaN(index))) return;
  chart.cursor = index === null ? null : Math.min(Math.max(index, 0), samples.length - 1);
  plot(chart);
}

// The least round number that is not below a value.
function ceiling(value, binary) {
  if (value <= 0) return binary ? 1024 : 2;
  const power = binary ? 2 ** Math.floor(Math.log2(value)) : 10 ** Math.floor(Math.log10(value));
  const steps = binary ? [1, 1.25, 1.5, 2] : [1, 2, 5, 10];
  return Math.max(binary ? 1024 : 2, (steps.find((step) => step * power >= value) ?? steps[3]) * power);
}

// The labelled values of the vertical axis, and the place of a value between 0 and 1.
function scale(chart, values) {
  if (!chart.logarithmic) {
    const most = ceiling(Math.max(0, ...values) * 1.02, chart.binary);
    return { ticks: [0, most / 2, most], place: (value) => value / most };
  }
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(1, ...positive))), high = Math.ceil(Math.log10(Math.max(1000, ...positive)));
  const ticks = [];
  for (let power = low; power <= high; power += 1) ticks.push(10 ** power);
  return { ticks, place: (value) => Math.max(0, (Math.log10(Math.max(value, 1e-6)) - low) / (high - low)) };
}

function plot(chart) {
  const width = chart.svg.clientWidth || 600, height = chart.svg.clientHeight || 170;
  const lines = chart.series.map((series) => samples.map((_, index) => series.value(index)));
  const { ticks, place } = scale(chart, lines.flat().filter((value) => value !== null));
  const x = (index) => LEFT + (width - LEFT - RIGHT) * (span() - samples.length + index) / (span() - 1);
  const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - place(value));
  const bottom = height - BOTTOM;
  const parts = [];
  for (const tick of ticks) {
    parts.push(draw("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: "grid" }),
      draw("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, chart.format(tick)));
  }
  for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const place = { x: LEFT + (width - LEFT - RIGHT) * share, y: height - 4, "text-anchor": anchor };
    parts.push(draw("text", place, share === 1 ? "now" : Math.round(span() * (1 - share)) + " s ago"));
  }
  lines.forEach((values, number) => {
    const series = chart.series[number];
    const runs = [];
    values.forEach((value, index) => {
      if (value === null) return;
      if (index === 0 || values[index - 1] === null) runs.push([]);
      runs.at(-1).push([x(index).toFixed(1), y(value).toFixed(1)]);
    });
    for (const run of runs) {
      const path = "M" + run.map((place) => place.join(" ")).join("L");
      if (series.filled) {
        const end = `L${run.at(-1)[0]} ${bottom}L${run[0][0]} ${bottom}Z`;
        parts.push(draw("path", { d: path + end, class: "area a" + (number + 1) }));
      }
      parts.push(draw("path", { d: path, class: "series " + (series.limit ? "limit" : "s" + (number + 1)) }));
    }
    series.now.textContent = chart.format(values[chart.cursor ?? values.length - 1] ?? null);
    // What a broker does not have is not in the legend.
    series.entry.hidden = series.optional && values.every((value) => value === null);
  });
  if (chart.cursor !== null && chart.cursor !== undefined) {
    parts.push(draw("line", { x1: x(chart.cursor), x2: x(chart.cursor), y1: TOP, y2: bottom, class: "cursor" }));
    const ago = Math.round((samples.at(-1).at - samples[chart.cursor].at) / 1000);
    const values = shown(chart).map((series) => series.name + " " + series.now.textContent).join(", ");
    chart.output.textContent = ago + " s ago";
    chart.output.setAttribute("aria-label", ago + " seconds ago: " + values);
  } else {
    chart.output.textContent = "";
    chart.output.removeAttribute("aria-label");
  }
  chart.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.svg.setAttribute("aria-label", `${chart.title}, ${chart.unit}, last five minutes. Arrow keys read single values.`);
  chart.svg.replaceChildren(...parts);
  tabulate(chart);
}

const shown = (chart) => chart.series.filter((series) => !series.entry.hidden);

// The last minute of a chart, every five seconds, for those who do not see it.
function tabulate(chart) {
  if (!chart.details.open) return;
  const rows = [];
  for (let index = samples.length - 1; index >= 0 && rows.length < 12; index -= 5) {
    const ago = Math.round((samples.at(-1).at - samples[index].at) / 1000);
    rows.push([ago + " s ago", ...shown(chart).map((series) => chart.format(series.value(index)))]);
  }
  fill(chart.table, ["time", ...shown(chart).map((series) => series.name)], rows);
}

// Tables. A cell is text, a number in words, or [text, share] with a meter. The titles of columns of text begin with "<", those of
// columns that narrow screens leave out with "~".

function fill(table, titles, rows, none) {
  const kinds = titles.map((title, column) =>
    (column === 0 || title.startsWith("<") ? "" : "n") + (/^<?~/.test(title) ? " minor" : ""));
  const head = make("tr", {}, ...titles.map((title, column) =>
    make("th", { scope: "col", class: kinds[column] }, title.replace(/^[<~]+/, ""))));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, column) => {
    if (column === 0) return make("th", { scope: "row" }, cell);
    const data = make("td", { class: kinds[column] }, Array.isArray(cell) ? cell[0] : cell);
    if (Array.isArray(cell)) {
      data.append(make("meter", { min: 0, max: 1, value: cell[1], high: cell[2] ?? 1, optimum: 0, "aria-label": cell[0] }));
    }
    return data;
  })));
  if (rows.length === 0) {
    table.replaceChildren(make("tbody", {}, make("tr", {}, make("td", { class: "empty" }, none ?? "No data yet."))));
  } else {
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
  }
}

const tables = {
  tiers: "Cache tiers", jobs: "Jobs by stage", workers: "Worker processes", hosts: "Origins by time",
  users: "Users by share of work", failures: "Failures by code", deaths: "Workers that died",
};

function addTable([id, title]) {
  const heading = make("h2", { id: id + "-title" }, title);
  $("tables").append(make("section", { class: "card", "aria-labelledby": heading.id }, heading, make("table", { id })));
}

const causes = {
  signal: "crashed", seccomp: "forbidden system call", memory: "out of memory", cpu: "used up its processor time",
  deadline: "took too long", protocol: "sent a forbidden message", exit: "exited by itself",
  "not-started": "could not start", unconfined: "not confined", outside: "killed from outside",
};

function showTables(s) {
  const share = (part, whole) => whole > 0 ? Math.min(1, part / whole) : 0;
  fill($("tiers"), ["tier", "used", "limit", "~entries", "hits", "~evicted"], [
    ["memory", [bytes(s.memoryBytes), share(s.memoryBytes, s.memoryLimitBytes)], bytes(s.memoryLimitBytes),
      short(s.memoryEntries), short(s.memoryHits), short(s.evictions)],
    ["disk (" + s.diskState + ")", [bytes(s.diskBytes), share(s.diskBytes, s.diskLimitBytes)], bytes(s.diskLimitBytes),
      short(s.diskEntries), short(s.diskHits), "–"],
    ...(s.sharedServers ?? []).map((server) => ["shared " + server.name + " (" + server.state + ")",
      percent(server.share / 1000) + " of keys", "–", short(server.writes), short(server.hits), "–"]),
  ]);
  fill($("jobs"), ["stage", "workers", "running", "queued", "done"], [
    ["download", short(s.fetchers), short(s.runningJobs?.download ?? 0), short(s.queuedJobs?.download ?? 0), short(s.downloads)],
    ["decode", short(s.workers), short(s.runningJobs?.decode ?? 0), short(s.queuedJobs?.decode ?? 0), short(s.decodes)],
    ["disk", s.diskState === "off" ? "0" : "1", short(s.runningJobs?.disk ?? 0), short(s.queuedJobs?.disk ?? 0), "–"],
    ["local files", "–", "–", short(s.queuedJobs?.file ?? 0), short(s.fileLoads)],
  ]);
  fill($("workers"), ["worker", "<state", "jobs", "for", "<~user", "<~origin"], (s.workerProcesses ?? []).map((worker) => [
    worker.kind + (worker.pid ? " " + worker.pid : ""), worker.state, short(worker.jobs), milliseconds(worker.milliseconds ?? null),
    worker.uid === undefined ? "–" : "uid " + worker.uid, worker.origin ?? "–"]), "No worker is ready.");
  const hosts = s.hosts ?? [];
  const slowest = Math.max(1, ...hosts.map((host) => host.milliseconds));
  fill($("hosts"), ["origin", "mean", "~longest", "~transfers", "failed", "~bytes", "total time"], hosts.map((host) => [
    host.origin, milliseconds(host.milliseconds / Math.max(1, host.transfers)), milliseconds(host.maxMilliseconds),
    short(host.transfers), short(host.failed), bytes(host.bytes), [milliseconds(host.milliseconds), host.milliseconds / slowest]]),
    "Nothing was downloaded yet.");
  const users = s.users ?? [], whole = work(users);
  fill($("users"), ["user", "share", "requests", "~downloading", "~decoding", "~bytes", "held"], users.map((user) => {
    const part = share(work([user]), whole);
    return ["uid " + user.uid, [percent(part), part], short(user.requests), milliseconds(user.downloadMilliseconds),
      milliseconds(user.decodeMilliseconds), bytes(user.bytes), bytes(user.leasedBytes)];
  }), "No requests yet.");
  const failures = Object.entries(s.failures).sort((a, b) => b[1] - a[1]);
  const all = failures.reduce((sum, [, count]) => sum + count, 0);
  fill($("failures"), ["code", "count", "share"], failures.map(([code, count]) =>
    [code, short(count), [percent(count / all), count / all]]), "No request has failed.");
  fill($("deaths"), ["worker", "<cause", "when"], (s.lastDeaths ?? []).map((death) =>
    [death.kind + (death.pid ? " " + death.pid : ""), (causes[death.cause] ?? death.cause) + " – " + death.reason.replace(/^[a-z-]+: /, ""),
      duration(death.secondsAgo) + " ago"]), "No worker has died.");
}

// Sentences for somebody who does not know the figures.

// Judges memory by the page's samples, 5 minutes at most, because an old burst is no present fault.
function memoryFinding() {
  const [first, now] = [samples[0], samples.at(-1)];
  const since = (name) => Math.max(0, now.stats[name] - first.stats[name]);
  const [made, remade, evicted] = [since("decodes"), since("remadeAfterEviction"), since("evictions")];
  const byDescriptors = since("descriptorEvictions");
  const time = "the last " + duration(Math.max(1, Math.round((now.at - first.at) / 1000)));
  if (byDescriptors > evicted / 2) {
    return ["bad", "Descriptors", `Descriptors, not memory-limit, bound the images in memory: in ${time}, they caused ${short(byDescriptors)} of ${short(evicted)} evictions. Raise the broker's LimitNOFILE= (ulimit -n).`];
  }
  if (made >= 10 && remade / made > 0.1) {
    return ["bad", "Memory", `Memory is too small: in ${time}, ${percent(Math.min(1, remade / made))} of the decodings made an image again that was evicted before. Raise memory-limit.`];
  }
  return ["good", "OK", evicted === 0 ? `Memory is large enough: nothing was evicted in ${time}.` :
    `Memory is large enough: in ${time}, ${short(evicted)} images were evicted, and ${short(remade)} decoded again.`];
}

function findings(s) {
  const list = [memoryFinding()];
  const hosts = (s.hosts ?? []).filter((host) => host.transfers >= 3);
  const slow = hosts.sort((a, b) => b.milliseconds / b.transfers - a.milliseconds / a.transfers)[0];
  if (slow) {
    const mean = slow.milliseconds / slow.transfers;
    const failed = slow.failed > 0 ? `, ${short(slow.failed)} failed` : "";
    list.push([mean > 1000 ? "warn" : "good", mean > 1000 ? "Slow" : "OK",
      `Slowest origin: ${slow.origin}, ${milliseconds(mean)} on average (${short(slow.transfers)} transfers${failed}).`]);
  }
  const users = s.users ?? [];
  if (work(users) > 0) {
    const part = work([users[0]]) / work(users);
    list.push([users.length > 1 && part > 0.8 ? "warn" : "good", users.length > 1 && part > 0.8 ? "Share" : "OK",
      `Most work is done for uid ${users[0].uid}: ${percent(part)} of the time of all jobs.`]);
  }
  const deaths = Object.entries(s.workerDeaths).sort((a, b) => b[1] - a[1]);
  if (deaths.length === 0) {
    list.push(["good", "OK", "No worker has died."]);
  } else {
    const words = deaths.map(([cause, count]) => `${count} ${causes[cause] ?? cause}`).join(", ");
    const recent = (s.lastDeaths ?? [])[0]?.secondsAgo < 600;
    list.push([recent ? "warn" : "good", recent ? "Deaths" : "OK", `Workers that died: ${words}.`]);
  }
  if (["read-only", "full", "locked"].includes(s.diskState)) {
    list.push(["bad", "Disk", `The disk tier is ${s.diskState}: new images are not kept.`]);
  }
  const servers = s.sharedServers ?? [];
  const ejected = servers.filter((server) => server.state !== "up").map((server) => server.name);
  if (ejected.length > 0) {
    list.push(["warn", "Shared", `${ejected.length} of ${servers.length} servers of the shared tier do not answer: ${ejected.join(", ")}.`]);
  }
  // It is not known before.
  const isReady = s.workers > 0 && s.fetchers > 0;
  if (isReady && s.sandbox === "none") list.push(["bad", "Sandbox", "The workers are not confined."]);
  return list;
}

function showFindings(s) {
  $("findings-list").replaceChildren(...findings(s).map(([kind, word, text]) =>
    make("li", {}, make("span", { class: "mark " + kind }, word), make("span", {}, text))));
}

function showTiles(s, last) {
  const answers = change(last, answered), hit = change(last, hits);
  const all = answered(s) > 0 ? hits(s) / answered(s) : null;
  const hitTime = quantile(last, "hit", 0.5);
  const tile = (title, value, unit, note) => make("div", { class: "tile" }, make("h3", {}, title),
    make("p", { class: "value" }, value, make("span", {}, unit)), make("p", { class: "note" }, note));
  const failed = change(last, (stats) => stats.failed);
  const split = (text) => { const words = text.split(" "); return [words[0], words.slice(1).join(" ")]; };
  const tiles = [
    ["Hit ratio", ...split(percent(answers ? hit / answers : all)), all === null ? "no requests yet" : percent(all) + " since the start"],
    ["Requests", ...split(short(rate(last, (stats) => stats.requests))), short(s.requests) + " in all"],
    ["Load, 95 %", ...split(milliseconds(quantile(last, "load", 0.95))), hitTime === null ? "no hits now" : "hit, median " + milliseconds(hitTime)],
    ["Memory", ...split(bytes(s.memoryBytes)), "of " + bytes(s.memoryLimitBytes)],
    ["Jobs", short(s.running), "running", short(s.queued) + " queued"],
    ["Failures", short(failed), "in 10 s", short(s.failed) + " in all"],
  ];
  if (tiles[1][1] !== "–") tiles[1][2] = (tiles[1][2] + " /s").trim();
  $("tiles").replaceChildren(...tiles.map((words) => tile(...words)));
}

function showThumbnails(numbers) {
  $("images").hidden = numbers === undefined;
  const list = $("thumbnails");
  const shown = new Map([...list.children].map((item) => [Number(item.dataset.number), item]));
  list.replaceChildren(...(numbers ?? []).map((number, index) => {
    if (shown.has(number)) return shown.get(number);
    const image = make("img", { src: "/thumbnails/" + number, alt: "Recent image " + (index + 1) });
    const item = make("li", { "data-number": number }, image);
    image.addEventListener("error", () => item.remove());
    return item;
  }));
}

// Updates.

let isPaused = false;
const plotAll = () => charts.forEach(plot);

function showState(kind, text, problem) {
  $("state").className = "pill " + kind;
  if ($("state").textContent !== text) $("state").textContent = text;
  $("notice").hidden = !problem;
  if (problem && $("notice").textContent !== problem) $("notice").textContent = problem;
}

function show(status) {
  if (!status.up) return showState("bad", "Not answering", "The broker does not answer: " + status.problem);
  showState("good", "Serving", status.complete ? "" :
    "The exporter’s user sees its own figures only, so most are 0. Run it as a member of the broker’s stats-group.");
  const s = status.stats;
  $("server").textContent = `${status.server} · up ${duration(s.uptimeSeconds)} · ${s.clients} clients · ${s.sandbox}`;
  const before = samples.at(-1);
  if (before && s.uptimeSeconds < before.stats.uptimeSeconds) {
    samples.length = 0;
    for (const chart of charts) chart.cursor = null;
  }
  samples.push({ at: performance.now(), stats: s });
  if (samples.length > SAMPLES) {
    samples.shift();
    for (const chart of charts) if (chart.cursor) chart.cursor -= 1;
  }
  showTiles(s, samples.length - 1);
  showFindings(s);
  showTables(s);
  showThumbnails(status.thumbnails);
  plotAll();
  document.body.dataset.samples = samples.length;
}

async function update() {
  if (isPaused || document.hidden) return;
  try {
    const answer = await fetch("/status.json", { signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
  } catch (error) {
    showState("bad", "No exporter", "The exporter does not answer (" + error.message + "). The figures below are old.");
  }
}

async function run() {
  for (;;) {
    const start = performance.now();
    await update();
    await new Promise((resolve) => setTimeout(resolve, Math.max(200, 1000 - (performance.now() - start))));
  }
}

charts.forEach(build);
Object.entries(tables).forEach(addTable);
new ResizeObserver(() => { if (samples.length > 0) plotAll(); }).observe($("charts"));
$("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  $("pause").setAttribute("aria-pressed", String(isPaused));
  $("pause").textContent = isPaused ? "Resume" : "Pause";
});
run();
