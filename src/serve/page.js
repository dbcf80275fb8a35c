"use strict";
// Draws dumps: spectra, visibilities, fringes and losses.

let shown = null;

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

function draw(live) {
  tables(live.metrics);
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

watch();
