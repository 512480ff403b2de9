"use strict";
// Only DOM nodes are built, never markup: no name or message can become anything but text.
const $ = (id) => document.getElementById(id);
const node = (tag, className, text) => {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};
const draw = (tag, attributes, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  return e;
};
const figure = (value, digits = 3) => {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(digits)));
};
const gigabytes = (bytes) => figure(bytes / 1e9) + " GB";

// ---- The server.
async function ask(path, body) {
  const reply = await fetch(path, body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  let json;
  try { json = await reply.json(); } catch { throw new Error(`the server answered ${reply.status} without JSON`); }
  if (!reply.ok) throw new Error(json.error && json.error.message ? json.error.message : `the server answered ${reply.status}`);
  return json;
}

// ---- Plots with logarithmic axes.
const WIDTH = 760, HEIGHT = 380, LEFT = 70, RIGHT = 20, TOP = 14, BOTTOM = 46;
function axis(low, high, from, to) {
  const span = Math.log(high / low);
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high && ticks.length < 60; power *= 10)
    for (const step of [1, 2, 5]) if (power * step >= low && power * step <= high) ticks.push(power * step);
  // Every power of ten has its line; those between only where there is room.
  const shown = ticks.length > 12 ? ticks.filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9) : ticks;
  return { at: (value) => from + (to - from) * Math.log(value / low) / span, ticks: shown, from, to };
}
function plot(x, y, xName, yName, label) {
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const t of x.ticks) {
    svg.append(draw("line", { x1: x.at(t), x2: x.at(t), y1: y.from, y2: y.to, class: "grid" }),
      draw("text", { x: x.at(t), y: y.from + 16, "text-anchor": "middle" }, figure(t)));
  }
  for (const t of y.ticks) {
    svg.append(draw("line", { x1: x.from, x2: x.to, y1: y.at(t), y2: y.at(t), class: "grid" }),
      draw("text", { x: x.from - 6, y: y.at(t) + 4, "text-anchor": "end" }, figure(t)));
  }
  svg.append(draw("text", { x: (x.from + x.to) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, xName),
    draw("text", { x: 14, y: HEIGHT / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${HEIGHT / 2})` }, yName));
  return svg;
}
const across = (values, room) => axis(Math.min(...values) / room, Math.max(...values) * room, LEFT, WIDTH - RIGHT);
const upward = (values, room) => axis(Math.min(...values) / room, Math.max(...values) * room, HEIGHT - BOTTOM, TOP);

// ---- The front.
let points = [], searched = "";
function showFront(front) {
  points = front;
  const x = across(front.map((p) => p.tokens_per_s_user), 1.2), y = upward(front.map((p) => p.tokens_per_s_device), 1.2);
  const svg = plot(x, y, "tokens per second per user", "tokens per second per device", "Pareto front");
  svg.append(draw("polyline", { class: "path", points: front.map((p) => `${x.at(p.tokens_per_s_user)},${y.at(p.tokens_per_s_device)}`).join(" ") }));
  front.forEach((p, i) => {
    const dot = draw("circle", { class: p.disaggregated ? "point apart" : "point", cx: x.at(p.tokens_per_s_user), cy: y.at(p.tokens_per_s_device), r: 4, tabindex: 0, role: "button", "aria-label": p.deployment });
    dot.append(draw("title", {}, `${p.deployment}, ${p.weights}, batch ${p.batch}: TPOT ${figure(p.tpot_ms)} ms`));
    dot.addEventListener("click", () => choose(i));
    dot.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(i); } });
    svg.append(dot);
  });
  $("front").replaceChildren(svg);
}

function bar(parts, total, format) {
  const strip = node("div", "bar"), key = node("div", "key");
  for (const [kind, name, value] of parts) {
    const piece = node("span", kind);
    piece.style.width = `${Math.max(0, Math.min(100, 100 * value / total))}%`;
    piece.title = `${name}: ${format(value)}`;
    if (kind !== "free") strip.append(piece);
    const entry = node("span");
    entry.append(node("i", kind), `${name} ${format(value)}`);
    key.append(entry);
  }
  return [strip, key];
}

function choose(index) {
  const p = points[index];
  document.querySelectorAll("#front .point").forEach((dot, i) => dot.classList.toggle("chosen", i === index));
  const facts = [
    ["Deployment", p.deployment], ["Weights, KV", `${p.weights}, ${p.kv_bits} bit`], ["Batch of an instance", figure(p.batch, 6)],
    ["Tokens a pass, block", `${p.batch_tokens}, ${p.block_size}`], ["Tokens/s per user", figure(p.tokens_per_s_user)],
    ["Tokens/s per device", figure(p.tokens_per_s_device)], ["TPOT", `${figure(p.tpot_ms)} ms`], ["TTFT", `${figure(p.ttft_ms)} ms`],
    ["Requests/s, all devices", figure(p.requests_per_s)], ["Devices", String(p.devices)], ["Bound by", p.binds],
    ["Batch limited by", p.batch_limited_by || "the choice of this point"],
  ];
  if (p.cost_per_million_output) facts.push(["Cost of a million tokens out", figure(p.cost_per_million_output)], ["… of all tokens", figure(p.cost_per_million_tokens)]);
  $("chosen").replaceChildren(...facts.map(([name, value]) => { const d = node("div"); d.append(node("dt", "", name), node("dd", "", value)); return d; }));
  const m = p.device_memory, free = Math.max(0, m.usable_bytes - m.weights_bytes - m.workspace_bytes - m.kv_bytes);
  $("memory").replaceChildren(...bar([["weights", "weights", m.weights_bytes], ["workspace", "workspace", m.workspace_bytes], ["kv", "KV", m.kv_bytes], ["free", "free", free]], m.usable_bytes, gigabytes));
  const s = p.step_ms, most = Math.max(s.memory, s.compute, s.links, s.fixed);
  const rows = node("table");
  for (const [name, value] of [["memory bandwidth", s.memory], ["compute", s.compute], ["links", s.links], ["overhead", s.fixed]]) {
    const row = node("tr"), cell = node("td", "wide"), strip = node("div", "bar"), piece = node("span", name === p.binds ? "kv" : "weights");
    piece.style.width = `${most > 0 ? 100 * value / most : 0}%`;
    strip.append(piece);
    cell.append(strip);
    row.append(node("td", "", name), node("td", "number", `${figure(value)} ms`), cell);
    rows.append(row);
  }
  $("pass").replaceChildren(rows);
  explain(p);
}

// ---- What one deployment comes to: its operators under the roofs of its device, its sizes.
let asking = 0;
async function explain(p) {
  const mine = ++asking;
  const layout = (p.decode || p.serving).layout;
  const r = request();
  const body = {
    model: r.model, hardware: r.hardware, input_tokens: r.input_tokens, output_tokens: r.output_tokens, cached_fraction: r.cached_fraction,
    weights: [p.weights], kv_bits: [p.kv_bits], tp: layout.tp, pp: layout.pp, dp: layout.dp, ep: layout.ep, cp: layout.cp,
    batch: Math.max(1, Math.round(p.batch / layout.pp)),  // of one pass
  };
  const parts = [["Search", searched]];
  for (const [path, title] of [["api/roofline", "Roofline"], ["api/size", "Size"]]) {
    try {
      const answer = await ask(path, body);
      if (mine !== asking) return;
      if (answer.roofs) showRoofline(answer);
      parts.push([`${title} of ${p.deployment}`, answer.text]);
    } catch (error) {
      if (mine !== asking) return;
      parts.push([title, error.message]);
    }
  }
  arithmetic(parts);
  document.body.dataset.explained = String(mine);
}
function showRoofline(answer) {
  const reached = [];
  for (const phase of ["decode", "prefill"]) {
    for (const one of answer[phase].operators || []) {
      // Of all its repeats: the arithmetic over the time that peak and bandwidth leave it at least.
      if (one.flops > 0 && one.intensity > 0 && one.floor_s > 0)
        reached.push({ phase, name: one.name, bound: one.bound, x: one.intensity, y: one.flops * one.repeats / one.floor_s / 1e12 });
    }
  }
  if (!reached.length) return;
  const gbs = answer.hardware.bandwidth_gbs, peaks = answer.roofs.map((r) => r.tflops);
  const ridges = peaks.map((t) => t * 1e3 / gbs);
  const x = across([...reached.map((o) => o.x), ...ridges], 2), y = upward([...reached.map((o) => o.y), ...peaks], 1.6);
  const svg = plot(x, y, "operations per byte", "TFLOP/s of a device", "Roofline");
  const lowest = Math.min(...reached.map((o) => o.x), ...ridges) / 2, highest = Math.max(...reached.map((o) => o.x), ...ridges) * 2;
  for (const [i, roof] of answer.roofs.entries()) {
    // The slope begins where it enters the picture.
    const begin = Math.max(lowest, Math.min(...reached.map((o) => o.y), ...peaks) / 1.6 * 1e3 / gbs);
    svg.append(draw("polyline", { class: "roof", points: `${x.at(begin)},${y.at(begin * gbs / 1e3)} ${x.at(ridges[i])},${y.at(roof.tflops)} ${x.at(highest)},${y.at(roof.tflops)}` }),
      draw("text", { x: x.to - 4, y: y.at(roof.tflops) - 5, "text-anchor": "end" }, `${roof.bits} bit: ${figure(roof.tflops)} TFLOP/s`));
  }
  for (const one of reached) {
    const dot = draw("circle", { class: `operator ${one.phase}`, cx: x.at(one.x), cy: y.at(one.y), r: 4 });
    dot.append(draw("title", {}, `${one.phase}: ${one.name}, ${figure(one.x)} operations a byte, bound by ${one.bound}`));
    svg.append(dot);
  }
  const legend = node("p", "legend");
  legend.append(node("span", "dot"), " decoding ", node("span", "dot apart"), " a prompt: each operator at the most that the device's peak and bandwidth allow");
  $("roofline").replaceChildren(svg, legend);
}

// ---- Tables.
function table(target, columns, rows) {
  const head = node("tr");
  for (const [name, , className] of columns) head.append(node("th", className, name));
  target.replaceChildren(head, ...rows.map((entry) => {
    const row = node("tr");
    for (const [, value, className] of columns) row.append(node("td", className, value(entry)));
    return row;
  }));
}
const COLUMNS = [
  ["Deployment", (p) => p.deployment], ["Weights, KV", (p) => `${p.weights}, ${p.kv_bits} bit`],
  ["Tok/s/device", (p) => figure(p.tokens_per_s_device), "number"], ["Tok/s/user", (p) => figure(p.tokens_per_s_user), "number"],
  ["TPOT ms", (p) => figure(p.tpot_ms), "number"], ["TTFT ms", (p) => figure(p.ttft_ms), "number"],
  ["Cost / M out", (p) => figure(p.cost_per_million_output), "number"], ["Batch", (p) => figure(p.batch, 6), "number"],
  ["Bound by", (p) => p.binds], ["Limited by", (p) => p.batch_limited_by || "–"],
];
const REFUSED = [["Layout", (r) => r.layout], ["Weights, KV", (r) => r.precision], ["Term", (r) => r.term], ["Why", (r) => r.text, "wide"]];

// ---- The form.
function option(value, text) {
  const e = node("option", "", text);
  e.value = value;
  return e;
}
const number = (id) => $(id).value === "" ? null : Number($(id).value);
function request() {
  const roles = $("roles").value;
  return {
    model: $("model").value, hardware: $("hardware").value, devices: number("devices"), input_tokens: number("input"),
    output_tokens: number("output"), cached_fraction: number("cached") / 100, ttft_ms: number("ttft"), tpot_ms: number("tpot"),
    price_per_device_hour: number("price"), aggregated: roles !== "apart", disaggregated: roles !== "together",
    weights: $("weights").value ? [$("weights").value] : [], kv_bits: $("kv").value ? [Number($("kv").value)] : [],
  };
}
function fail(message) {
  $("error").textContent = message;
  $("error").hidden = false;
}
function clear() {
  $("error").hidden = true;
  points = [];
  ++asking;  // what is under way is of no use any more
  for (const id of ["front", "chosen", "memory", "pass", "best", "refused", "roofline", "arithmetic"]) $(id).replaceChildren();
}

let asked = 0;
async function plan() {
  const mine = ++asked;
  clear();
  $("plan").disabled = true;
  $("status").textContent = "working it out …";
  const began = performance.now();
  try {
    const result = await ask("api/parallel", request());
    if (mine !== asked) return;
    searched = result.text;
    showFront(result.front);
    choose(Math.floor(result.front.length / 2));
    table($("best"), COLUMNS, result.best.slice(0, 40));
    table($("refused"), REFUSED, result.refusals.slice(0, 200));
    arithmetic([["Search", searched]]);
    $("status").textContent = `${result.evaluated.toLocaleString("en")} states in ${((performance.now() - began) / 1000).toFixed(1)} s`;
  } catch (error) {
    if (mine === asked) { fail(error.message); $("status").textContent = ""; }
  } finally {
    if (mine === asked) $("plan").disabled = false;
    document.body.dataset.done = String(mine);
  }
}
function arithmetic(parts) {
  $("arithmetic").replaceChildren(...parts.map(([title, text], i) => {
    const d = node("details");
    d.open = i === 0;
    d.append(node("summary", "", title), node("pre", "", text));
    return d;
  }));
}

async function start() {
  try {
    const known = await ask("api/known");
    $("model").replaceChildren(...known.models.map((name) => option(name, name)));
    $("hardware").replaceChildren(...known.hardware.map((h) => option(h.name, `${h.name}, ${gigabytes(h.memory_bytes)}, ${figure(h.bandwidth_gbs)} GB/s`)));
    for (const name of known.weights || []) $("weights").append(option(name, name));
    document.body.dataset.ready = "true";
  } catch (error) {
    fail(error.message);
  }
}
$("form").addEventListener("submit", (event) => { event.preventDefault(); plan(); });
start();
