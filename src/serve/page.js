"use strict";
// Draws what live.json says, and asks again a second after each answer.

const element = (id) => document.getElementById(id);
const form = element("look");
let shown = null;

// Colours of lines: apart in hue by the golden angle.
const line = (number) => `hsl(${(number * 137.5 + 210) % 360} 65% 50%)`;
// Dark blue over green to yellow, for 0 to 1.
const level = (x) => `hsl(${250 - 195 * x} ${60 + 30 * x}% ${20 + 45 * x}%)`;
// Around the circle, for phases in turns.
const hue = (turns) => `hsl(${((turns + 1) % 1) * 360} 80% 50%)`;

const number = (x) =>
  x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(1) : String(+x.toPrecision(3));

// A canvas, empty, with axes: returns how values become places.
function axes(id, [left, right], [low, high]) {
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
  for (const value of [left, (left + right) / 2, right]) pen.fillText(number(value), x(value), y0 + 16);
  return { pen, x, y, x0, x1, y0, y1 };
}

function spectra(dump, firstChannel) {
  const known = dump.spectra.flat().filter((power) => power !== null);
  const high = Math.max(...known, 1e-12);
  const points = dump.spectra[0].length;
  const at = (point) => firstChannel + point * dump.grain;
  const { pen, x, y } = axes("spectra", [at(0), at(Math.max(points - 1, 1))], [0, high * 1.05]);
  dump.spectra.forEach((powers, input) => {
    pen.strokeStyle = line(dump.first + input);
    pen.beginPath();
    let drawing = false;
    powers.forEach((power, point) => {
      if (power === null) {
        drawing = false;
        return;
      }
      pen[drawing ? "lineTo" : "moveTo"](x(at(point)), y(power));
      drawing = true;
    });
    pen.stroke();
  });
}

// The lines' colours and inputs, beside their axes.
function legend(first, count) {
  const names = Array.from({ length: count }, (_, index) => {
    const name = document.createElement("span");
    name.textContent = first + index;
    name.style.color = line(first + index);
    return name;
  });
  element("legend").replaceChildren("input", ...names);
}

// A bar of colours from 0 to 1, with its ticks and name.
function bar(id, colour, ticks, name) {
  const canvas = element(id);
  const pen = canvas.getContext("2d");
  const [left, width, height] = [12, canvas.width - 24, 12];
  pen.clearRect(0, 0, canvas.width, canvas.height);
  for (let x = 0; x < width; x++) {
    pen.fillStyle = colour(x / (width - 1));
    pen.fillRect(left + x, 0, 1, height);
  }
  pen.fillStyle = getComputedStyle(document.body).color;
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  ticks.forEach((tick, index) =>
    pen.fillText(tick, left + (index / (ticks.length - 1)) * width, height + 13),
  );
  pen.fillText(name, left + width / 2, height + 28);
}

function matrix(id, rows, colour) {
  const canvas = element(id);
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const size = canvas.width / rows.length;
  rows.forEach((row, i) =>
    row.forEach((value, j) => {
      pen.fillStyle = value === null ? "#8884" : colour(value, i, j);
      pen.fillRect(j * size, i * size, Math.ceil(size), Math.ceil(size));
    }),
  );
}

function fringes(dump, firstChannel) {
  const at = (point) => firstChannel + point * dump.grain;
  const points = dump.baseline_phase.length;
  const { pen, x, y } = axes("fringes", [at(0), at(Math.max(points - 1, 1))], [-0.5, 0.5]);
  const high = Math.max(...dump.baseline_amplitude.filter((value) => value !== null), 1e-12);
  dump.baseline_phase.forEach((phase, point) => {
    if (phase === null) return;
    pen.fillStyle = hue(phase);
    const radius = 1.5 + 2.5 * (dump.baseline_amplitude[point] / high);
    pen.beginPath();
    pen.arc(x(at(point)), y(phase), radius, 0, 2 * Math.PI);
    pen.fill();
  });
}

function losses(dump) {
  const high = Math.max(...dump.losses.map((loss) => 100 * loss), 1);
  const { pen, x, y, y0 } = axes("losses", [0, dump.losses.length], [0, high]);
  dump.losses.forEach((loss, input) => {
    pen.fillStyle = line(input);
    const width = Math.max(x(input + 1) - x(input) - 1, 1);
    pen.fillRect(x(input), y(100 * loss), width, y0 - y(100 * loss));
  });
}

function table(metrics) {
  const body = element("metrics");
  while (body.rows.length > metrics.length) body.deleteRow(-1);
  metrics.forEach(([name, value], index) => {
    const row = body.rows[index] || body.insertRow();
    while (row.cells.length < 2) row.insertCell();
    row.cells[0].textContent = name;
    row.cells[1].textContent = value;
    row.dataset.metric = name;
  });
}

function draw(live) {
  table(live.metrics);
  const dump = live.dump;
  if (!dump) return;
  shown = dump;
  element("state").textContent =
    `${live.inputs} inputs x ${live.channels} channels, dump of ${number(dump.seconds)} s from ${dump.start}`;
  element("channel").textContent = `channel ${live.first_channel + dump.channel}`;
  element("baseline").textContent = dump.baseline.join(" x ");
  if (form.channel.value === "") form.channel.value = dump.channel;
  spectra(dump, live.first_channel);
  const power = (i) => dump.amplitude[i][i] || 1e-12;
  matrix("amplitude", dump.amplitude, (value, i, j) =>
    level(Math.min(1, value / Math.sqrt(power(i) * power(j)))),
  );
  matrix("phase", dump.phase, hue);
  bar("amplitude-bar", level, ["0", "0.5", "1"], "amplitude over the root of both powers");
  bar("phase-bar", (part) => hue(part - 0.5), ["−0.5", "0", "0.5"], "phase (turns)");
  legend(dump.first, dump.spectra.length);
  fringes(dump, live.first_channel);
  losses(dump);
  document.body.dataset.dump = dump.start;
}

for (const id of ["amplitude", "phase"]) {
  element(id).addEventListener("click", (event) => {
    if (!shown) return;
    const size = event.target.clientWidth / shown.amplitude.length;
    form.a.value = shown.first + Math.floor(event.offsetY / size);
    form.b.value = shown.first + Math.floor(event.offsetX / size);
    update();
  });
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
watch();
