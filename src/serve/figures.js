"use strict";
// Figures, tables of sockets, losses and metrics, and asking again: what every page has. A page has request(), the query of
// live.json, and draw(live), which draws its answer.

const element = (id) => document.getElementById(id);
const form = element("look");
const dark = matchMedia("(prefers-color-scheme: dark)");

// Okabe and Ito's colours, for white paper, and lighter where they would be lost on black.
const LINES = [
  ["#0072b2", "#56b4e9"],
  ["#d55e00", "#ff8a3d"],
  ["#009e73", "#2fcf9f"],
  ["#cc79a7", "#e39cc2"],
  ["#e69f00", "#ffc14d"],
  ["#56b4e9", "#2a86d8"],
  ["#000000", "#ffffff"],
  ["#a09100", "#f0e442"],
];
const line = (index) => LINES[index % LINES.length][dark.matches ? 1 : 0];
const ink = () => (dark.matches ? "#e6e6e6" : "#1a1a1a");
const faint = () => (dark.matches ? "#ffffff2a" : "#0000001f");
const NONE = "#8884";

// Viridis, for 0 to 1, between nine of its colours.
const VIRIDIS = [
  [68, 1, 84],
  [71, 45, 123],
  [59, 82, 139],
  [44, 114, 142],
  [33, 145, 140],
  [40, 174, 128],
  [94, 201, 98],
  [173, 220, 48],
  [253, 231, 37],
];
function viridis(part) {
  const place = Math.min(1, Math.max(0, part)) * (VIRIDIS.length - 1);
  const below = Math.min(VIRIDIS.length - 2, Math.floor(place));
  return VIRIDIS[below].map((low, i) => Math.round(low + (place - below) * (VIRIDIS[below + 1][i] - low)));
}
const level = (part) => `rgb(${viridis(part)})`;

// Phases in turns: hues of equal lightness and chroma, the same at both ends (Oklab).
const cycle = (turns) => `oklch(0.74 0.12 ${360 * (turns - Math.floor(turns))}deg)`;

const number = (x) =>
  x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1) : String(+x.toPrecision(3));
const decibels = (power) => (power > 0 ? 10 * Math.log10(power) : null);

// A duration with the unit of its magnitude.
function duration(seconds) {
  const units = [[60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const [unit, name] = units.find(([unit]) => seconds >= 0.9999 * unit) || units[4];
  return `${number(seconds / unit)} ${name}`;
}

// Round values between two, about as many as asked for, with the words of each.
function ticks(low, high, count, whole = false) {
  const [from, to] = low < high ? [low, high] : [high, low];
  const rough = (to - from) / Math.max(count, 1) || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].find((step) => step * unit >= 0.999 * rough) * unit;
  if (whole) step = Math.max(1, Math.round(step));
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let index = Math.ceil(from / step - 1e-6); index * step <= to + 1e-6 * step; index++) {
    const text = (index * step).toFixed(decimals).replace(/^-(?=0\.?0*$)/, "").replace("-", "−");
    found.push([index * step, text]);
  }
  return found;
}

// Ticks of phases in turns, in radians.
const PHASES = [
  [-0.5, "−π"],
  [0, "0"],
  [0.5, "π"],
];

// Range of values that are not null, without the outermost parts, and at least so wide.
function range(values, part = 0, least = 0) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (known.length === 0) return [0, 1];
  const at = (part) => known[Math.round((known.length - 1) * part)];
  const [low, high] = [at(part), at(1 - part)];
  const more = high > low ? Math.max(0, least - (high - low)) / 2 : Math.max(least, 1) / 2;
  return [low - more, high + more];
}

// A canvas, empty, with the pixels of its place on the screen.
function surface(id) {
  const canvas = element(id);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  const pen = canvas.getContext("2d");
  pen.scale(canvas.width / width, canvas.height / height);
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = pen.strokeStyle = ink();
  pen.lineWidth = 1;
  return { pen, width, height };
}

// Words of ticks along a line, those apart that would meet the one before.
function along(pen, marks, place, write) {
  let end = -Infinity;
  for (const [value, text] of marks) {
    const half = pen.measureText(text).width / 2;
    if (place(value) - half < end + 8) continue;
    write(text, place(value));
    end = place(value) + half;
  }
}

function upwards(pen, text, x, y) {
  pen.save();
  pen.translate(x, y);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillText(text, 0, 0);
  pen.restore();
}

// A canvas with axes: returns how values become places. An axis has its range, and what it is called; its ticks are round
// numbers unless it has others. There is room for a scale at the right where one is asked for.
function axes(id, x, y, scale = 0) {
  const { pen, width, height } = surface(id);
  const [x0, x1, y0, y1] = [62, width - 14 - scale, height - 40, 10];
  const place = ([low, high], from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  const [across, up] = [place(x.range, x0, x1), place(y.range, y0, y1)];
  const [columns, rows] = [
    x.ticks || ticks(...x.range, (x1 - x0) / 80, x.whole),
    y.ticks || ticks(...y.range, (y0 - y1) / 36),
  ];
  pen.strokeStyle = faint();
  pen.beginPath();
  for (const [value] of columns) pen.moveTo(across(value), y0), pen.lineTo(across(value), y1);
  for (const [value] of rows) pen.moveTo(x0, up(value)), pen.lineTo(x1, up(value));
  pen.stroke();
  pen.strokeStyle = ink();
  pen.strokeRect(x0, y1, x1 - x0, y0 - y1);
  pen.textAlign = "center";
  along(pen, columns, across, (text, at) => pen.fillText(text, at, y0 + 16));
  pen.fillText(x.name, (x0 + x1) / 2, y0 + 33);
  pen.textAlign = "right";
  for (const [value, text] of rows) pen.fillText(text, x0 - 6, up(value) + 4);
  upwards(pen, y.name, 14, (y0 + y1) / 2);
  return { pen, x: across, y: up, x0, x1, y0, y1 };
}

// A joined line over points; it is cut where there is none.
function joined(pen, points, x, y) {
  pen.beginPath();
  let drawing = false;
  for (const [at, value] of points) {
    if (value !== null) pen[drawing ? "lineTo" : "moveTo"](x(at), y(value));
    drawing = value !== null;
  }
  pen.stroke();
}

// An upright bar of colours for 0 to 1, at these heights, with its ticks from below to above, and its name.
function scale(pen, left, [bottom, top], colour, marks, name) {
  for (let y = top; y < bottom; y++) {
    pen.fillStyle = colour((bottom - 1 - y) / (bottom - 1 - top));
    pen.fillRect(left, y, 14, Math.min(1.5, bottom - y));
  }
  pen.fillStyle = pen.strokeStyle = ink();
  pen.strokeRect(left, top, 14, bottom - top);
  pen.textAlign = "left";
  for (const [part, text] of marks) {
    pen.fillText(text, left + 19, bottom + part * (top - bottom) + 4);
  }
  upwards(pen, name, left + 62, (bottom + top) / 2);
}

// Marks of a scale between two values.
const marks = ([low, high], count) =>
  ticks(low, high, count).map(([value, text]) => [(value - low) / (high - low), text]);

// A bar for each of many, by their names.
function bars(id, values, names, kind, name) {
  const high = Math.max(...values) || 1;
  const count = values.length;
  const named = names && names.map((text, index) => [index, text]);
  const { pen, x, y, y0 } = axes(
    id,
    { range: [-0.5, count - 0.5], name: kind, ticks: named, whole: true },
    { range: [0, high * 1.05], name },
  );
  pen.fillStyle = line(0);
  values.forEach((value, index) => {
    const width = Math.max(0.8 * (x(1) - x(0)), 1);
    pen.fillRect(x(index) - width / 2, y(value), width, y0 - y(value));
  });
}

// Names in their lines' colours, and what else there is to say.
function legend(id, names, rest = "") {
  const colours = names.map((text, index) => {
    const name = document.createElement("span");
    name.textContent = text;
    name.style.setProperty("--line", line(index));
    return name;
  });
  element(id).replaceChildren(...colours, rest);
}

// Fills a list of choices, when there are others.
function choices(select, names) {
  if (select.length === names.length && names.every((name, index) => select[index].text === name)) return;
  const chosen = select.value || select.dataset.first || "0";
  select.replaceChildren(...names.map((name, index) => new Option(name, index)));
  select.value = Math.min(chosen, names.length - 1);
}

// Values of a metric, by its label: a map from the label's value.
function labelled(metrics, name) {
  const found = metrics.filter(([full]) => full.startsWith(`${name}{`));
  return new Map(found.map(([full, value]) => [full.slice(name.length).split('"')[1], Number(value)]));
}

// Fills a table's body with rows of words.
function rows(id, lines) {
  const body = element(id);
  while (body.rows.length > lines.length) body.deleteRow(-1);
  lines.forEach((words, index) => {
    const row = body.rows[index] || body.insertRow();
    while (row.cells.length < words.length) row.insertCell();
    words.forEach((word, cell) => {
      row.cells[cell].textContent = word;
    });
  });
}

// Work of sockets when they were looked at before, and when that was.
let before = null;

// Sockets: what came, what was lost, how full their rings are, and how much work it is.
function sockets(metrics) {
  const of = (name) => labelled(metrics, `corrust_socket_${name}`);
  const [packets, bytes, dropped, bad] = ["packets", "bytes", "dropped_packets", "bad_packets"].map((name) =>
    of(`${name}_total`),
  );
  const [held, slots, work] = [of("held_slots"), of("slots"), of("core_seconds_total")];
  const now = performance.now() / 1000;
  const busy = (socket) => {
    const known = before?.work.get(socket);
    return known === undefined ? "" : number((100 * (work.get(socket) - known)) / (now - before.now));
  };
  rows(
    "sockets",
    [...packets.keys()].map((socket) => [
      socket,
      String(packets.get(socket)),
      number(bytes.get(socket) / 1e9),
      String(dropped.get(socket)),
      String(bad.get(socket)),
      slots.get(socket) > 0 ? number((100 * held.get(socket)) / slots.get(socket)) : "0",
      bytes.get(socket) > 0 ? number(work.get(socket) / (bytes.get(socket) / 1e9)) : "",
      busy(socket),
    ]),
  );
  before = { work, now };
}

// Packets and heaps that were lost, by cause; causes that nothing was lost by are left out.
function causes(metrics) {
  const dropped = metrics.find(([name]) => name === "corrust_dropped_packets_total");
  const bad = [...labelled(metrics, "corrust_bad_packets_total")];
  const heaps = [...labelled(metrics, "corrust_heaps_total")].filter(([fate]) => fate !== "placed");
  const all = [
    ["packets dropped by the system", dropped ? Number(dropped[1]) : 0],
    ...bad.map(([fault, count]) => [`bad packets: ${fault}`, count]),
    ...heaps.map(([fate, count]) => [`heaps: ${fate}`, count]),
  ];
  const lost = all.filter(([, count]) => count > 0).map(([cause, count]) => [cause, String(count)]);
  rows("causes", lost.length ? lost : [["nothing", "0"]]);
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", () => update());

// The last answer, and when another one than before came.
let answered = null;
let changed = { text: "", at: 0 };

// Says how old figures are that are later than the next was to be.
function state(text, seconds) {
  const now = performance.now() / 1000;
  if (text !== changed.text) changed = { text, at: now };
  const silent = now - changed.at;
  element("state").textContent = silent < 5 + 3 * seconds ? text : `${text}; nothing new for ${duration(Math.round(silent))}`;
}

let asked = 0;
async function update() {
  const mine = ++asked;
  try {
    const answer = await fetch(`live.json?${request()}`);
    if (!answer.ok) return;
    const live = await answer.json();
    // What was asked later counts.
    if (mine !== asked) return;
    answered = live;
    sockets(live.metrics);
    causes(live.metrics);
    rows("metrics", live.metrics);
    draw(live);
  } catch {
    element("state").textContent = "no answer: corrust serve has ended, or the connection has";
  }
}

// Canvases have the pixels of their places, and colours of the scheme.
const again = () => answered && draw(answered);
addEventListener("resize", again);
dark.addEventListener("change", again);

async function watch() {
  await update();
  setTimeout(watch, 1000);
}
