"use strict";
// Figures, the table of metrics, and asking again: what every page has. A page has draw(live), which draws what
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
