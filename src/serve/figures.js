"use strict";
// Figures, tables of sockets, losses and metrics, and asking again: what every page has. A page has draw(live), which draws what
// live.json says.

const element = (id) => document.getElementById(id);
const form = element("look");

// Colours of lines: apart in hue by the golden angle.
const line = (number) => `hsl(${(number * 137.5 + 210) % 360} 65% 50%)`;
// Dark blue over green to yellow, for 0 to 1.
const level = (x) => `hsl(${250 - 195 * x} ${60 + 30 * x}% ${20 + 45 * x}%)`;
// Around the circle, for phases in turns.
const hue = (turns) => `hsl(${((turns + 1) % 1) * 360} 80% 50%)`;

const number = (x) =>
  x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1) : String(+x.toPrecision(3));

// A canvas, empty, with axes: returns how values become places.
function axes(id, [left, right], [low, high], name = number) {
  const canvas = element(id);
  const pen = canvas.getContext("2d");
  const [x0, x1, y0, y1] = [56, canvas.width - 10, canvas.height - 24, 10];
  const ink = getComputedStyle(document.body).color;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = pen.strokeStyle = ink;
  pen.font = "12px system-ui, sans-serif";
  pen.lineWidth = 1;
  pen.strokeRect(x0, y1, x1 - x0, y0 - y1);
  const x = (value) => x0 + ((value - left) / (right - left || 1)) * (x1 - x0);
  const y = (value) => y0 + ((value - low) / (high - low || 1)) * (y1 - y0);
  pen.textAlign = "right";
  for (const value of [low, (low + high) / 2, high]) pen.fillText(number(value), x0 - 4, y(value) + 4);
  pen.textAlign = "center";
  for (const value of [left, (left + right) / 2, right]) pen.fillText(name(value), x(value), y0 + 16);
  return { pen, x, y, x0, x1, y0, y1 };
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

// Tables that every page has.
function tables(metrics) {
  sockets(metrics);
  causes(metrics);
  rows("metrics", metrics);
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", () => update());

let asked = 0;
async function update() {
  const mine = ++asked;
  const look = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "") look.set(name, value);
  try {
    const answer = await fetch(`live.json?${look}`);
    // What was asked later counts.
    if (mine === asked && answer.ok) draw(await answer.json());
  } catch {
    element("state").textContent = "no answer: corrust serve has ended, or the connection has";
  }
}

async function watch() {
  await update();
  setTimeout(watch, 1000);
}
