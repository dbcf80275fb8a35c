"use strict";
// Draws dumps: spectra, their last minutes, visibilities, fringes and losses.

// Height of a scale's column beside a figure.
const SCALE = 76;

// Rows of the waterfall by their numbers, of which input, and the last one.
const kept = { input: -1, last: -1, rows: new Map() };
// Where cells of the matrix are.
let cells = null;

function request() {
  const look = new URLSearchParams();
  for (const name of ["first", "a", "b", "input"]) if (form[name].value !== "") look.set(name, form[name].value);
  const channel = Number(form.channel.value) - (answered?.first_channel ?? 0);
  if (answered && form.channel.value !== "" && channel >= 0) look.set("channel", channel);
  if (Number(form.input.value) === kept.input) look.set("since", Math.max(kept.last, 0));
  return look;
}

// The axis of channels: places in megahertz where frequencies are known, else numbers of channels.
function band(live) {
  const { channels, frequencies, first_channel: first } = live;
  const step = frequencies && channels > 1 ? (frequencies[1] - frequencies[0]) / (channels - 1) / 1e6 : 1;
  const start = frequencies ? frequencies[0] / 1e6 : first;
  const at = (channel) => start + channel * step;
  const edges = [at(-0.5), at(channels - 0.5)].sort((a, b) => a - b);
  const name = frequencies ? "frequency (MHz)" : "channel";
  return { at, edges, axis: { range: edges, name, whole: !frequencies } };
}

// Middle of a point that is a mean over channels.
const middle = (point, grain, channels) => (point * grain + Math.min((point + 1) * grain, channels) - 1) / 2;

function spectra(live, { dump, names }) {
  const { at, axis } = band(live);
  const powers = dump.spectra.map((spectrum) => spectrum.map(decibels));
  const [low, high] = range(powers.flat(), 0, 1);
  const room = 0.06 * (high - low);
  const y = { range: [low - room, high + room], name: "power (dB)" };
  const figure = axes("spectra", axis, y);
  const draw = (powers, colour) => {
    figure.pen.strokeStyle = colour;
    joined(
      figure.pen,
      powers.map((power, point) => [at(middle(point, dump.grain, live.channels)), power]),
      figure.x,
      figure.y,
    );
  };
  powers.slice(LINES.length).forEach((powers) => draw(powers, "#8886"));
  powers.slice(0, LINES.length).forEach((powers, index) => draw(powers, line(index)));
  const others = powers.length - LINES.length;
  legend(
    "legend",
    names.slice(dump.first, dump.first + Math.min(powers.length, LINES.length)),
    others > 0 ? `grey: the next ${others}` : "",
  );
}

function keep({ input, waterfall }) {
  if (input !== kept.input || waterfall.last < kept.last) kept.rows.clear();
  kept.input = input;
  kept.last = waterfall.last;
  for (const [number, powers] of waterfall.rows) kept.rows.set(number, powers.map(decibels));
  for (const number of kept.rows.keys()) if (number + waterfall.most <= kept.last) kept.rows.delete(number);
}

function waterfall(live, { dump, names }) {
  const { most, seconds, last, grain } = dump.waterfall;
  const { at, axis } = band(live);
  const numbers = [...kept.rows.keys()];
  const count = Math.min(most, Math.max(30, last - Math.min(...numbers) + 1));
  const minutes = count * seconds >= 180;
  const unit = minutes ? 60 : 1;
  const y = { range: [(count * seconds) / unit, 0], name: minutes ? "minutes ago" : "seconds ago" };
  const { pen, x, x0, x1, y0, y1 } = axes("waterfall", axis, y, SCALE);
  const reach = range([...kept.rows.values()].flat(), 0.01, 1);
  pen.clearRect(x0, y1, x1 - x0, y0 - y1);
  const edge = (row) => Math.round(y1 + (row * (y0 - y1)) / count);
  for (const [number, powers] of kept.rows) {
    const [top, bottom] = [edge(last - number), edge(last - number + 1)];
    powers.forEach((power, point) => {
      const ends = [point * grain, Math.min((point + 1) * grain, live.channels)].map((channel) => x(at(channel - 0.5)));
      const [left, right] = [Math.floor(Math.min(...ends)), Math.ceil(Math.max(...ends))];
      pen.fillStyle = power === null ? NONE : level((power - reach[0]) / (reach[1] - reach[0]));
      pen.fillRect(Math.max(left, x0), top, Math.min(right, x1) - Math.max(left, x0), bottom - top);
    });
  }
  pen.strokeStyle = ink();
  pen.strokeRect(x0, y1, x1 - x0, y0 - y1);
  scale(pen, x1 + 14, [y0, y1], level, marks(reach, (y0 - y1) / 40), "power (dB)");
  element("waterfall-of").textContent = live.names ? names[dump.input] : `input ${names[dump.input]}`;
}

// Coherences below the diagonal, phases above it.
function matrix({ dump, names }) {
  const { pen, width, height } = surface("matrix");
  const count = dump.amplitude.length;
  const shown = names.slice(dump.first, dump.first + count);
  const widest = Math.max(...shown.map((name) => pen.measureText(name).width));
  const left = Math.min(110, 34 + widest);
  const side = Math.floor(Math.min(width - left - SCALE - 22, height - 50));
  const [x0, y0] = [left, 10];
  const size = side / count;
  const power = (i) => dump.amplitude[i][i] || 1e-12;
  const coherence = (i, j) => dump.amplitude[i][j] / Math.sqrt(power(i) * power(j));
  let highest = 1e-9;
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) if (dump.amplitude[i][j] !== null) highest = Math.max(highest, coherence(i, j));
  }
  const fill = (i, j, colour) => {
    const [left, top] = [Math.round(x0 + j * size), Math.round(y0 + i * size)];
    pen.fillStyle = colour;
    pen.fillRect(left, top, Math.round(x0 + (j + 1) * size) - left, Math.round(y0 + (i + 1) * size) - top);
  };
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < i; j++) {
      const known = dump.amplitude[i][j] !== null;
      fill(i, j, known ? level(coherence(i, j) / highest) : NONE);
      fill(j, i, known ? cycle(-dump.phase[i][j]) : NONE);
    }
  }
  pen.strokeStyle = pen.fillStyle = ink();
  pen.strokeRect(x0, y0, side, side);
  const [a, b] = dump.baseline.map((input) => input - dump.first);
  if (a !== b && Math.min(a, b) >= 0 && Math.max(a, b) < count) {
    pen.lineWidth = 2;
    pen.strokeRect(x0 + b * size, y0 + a * size, size, size);
    pen.lineWidth = 1;
  }
  const middle = (index) => (index + 0.5) * size;
  pen.textAlign = "center";
  const step = Math.ceil((widest + 8) / size);
  shown.forEach((name, index) => {
    if (index % step === 0) pen.fillText(name, x0 + middle(index), y0 + side + 16);
  });
  pen.fillText("input j", x0 + side / 2, y0 + side + 33);
  pen.textAlign = "right";
  const every = Math.ceil(15 / size);
  shown.forEach((name, index) => {
    if (index % every === 0) pen.fillText(name, x0 - 6, y0 + middle(index) + 4);
  });
  upwards(pen, "input i", 14, y0 + side / 2);
  const [bar, half] = [x0 + side + 16, y0 + side / 2];
  const phases = PHASES.map(([turns, text]) => [turns + 0.5, text]);
  scale(pen, bar, [Math.round(half) - 12, y0], (part) => cycle(part - 0.5), phases, "phase (rad)");
  scale(pen, bar, [y0 + Math.round(side), Math.round(half) + 12], level, marks([0, highest], Math.max(2, side / 70)), "coherence");
  cells = { x0, y0, size, count, first: dump.first };
}

function fringes(live, { dump, names }) {
  const { at, axis } = band(live);
  const place = (point) => at(middle(point, dump.grain, live.channels));
  const powers = dump.baseline_amplitude.map(decibels);
  const [low, high] = range(powers, 0, 1);
  const room = 0.06 * (high - low);
  const amplitude = axes("amplitude", axis, { range: [low - room, high + room], name: "|V| (dB)" });
  amplitude.pen.strokeStyle = line(0);
  joined(amplitude.pen, powers.map((power, point) => [place(point), power]), amplitude.x, amplitude.y);
  const { pen, x, y } = axes("phase", axis, { range: [-0.55, 0.55], name: "phase (rad)", ticks: PHASES });
  dump.baseline_phase.forEach((phase, point) => {
    if (phase === null) return;
    pen.fillStyle = line(0);
    pen.beginPath();
    pen.arc(x(place(point)), y(phase), 2, 0, 2 * Math.PI);
    pen.fill();
  });
  const pair = dump.baseline.map((input) => names[input]).join(" × ");
  element("baseline").textContent = live.names ? pair : `of inputs ${pair}`;
}

function draw(live) {
  const dump = live.dump;
  if (!dump) return;
  const names = live.names || Array.from({ length: live.inputs }, (_, input) => String(input));
  for (const name of ["first", "a", "b", "input"]) choices(form[name], names);
  if (form.channel.value === "") form.channel.value = live.first_channel + dump.channel;
  form.channel.min = live.first_channel;
  form.channel.max = live.first_channel + live.channels - 1;
  const lost = dump.losses.reduce((sum, loss) => sum + loss, 0) / dump.losses.length;
  state(
    `${live.inputs} inputs × ${live.channels} channels; dump of ${duration(dump.seconds)} from ` +
      `${dump.start.replace("T", " ").replace(/(\.\d{3})\d*/, "$1")}; ${number(100 * lost)} % of samples missing`,
    dump.seconds,
  );
  const { at } = band(live);
  const channel = live.first_channel + dump.channel;
  element("channel").textContent = live.frequencies
    ? `channel ${channel} (${+at(dump.channel).toFixed(3)} MHz)`
    : `channel ${channel}`;
  const shown = { dump, names };
  keep(dump);
  spectra(live, shown);
  waterfall(live, shown);
  matrix(shown);
  fringes(live, shown);
  bars("losses", dump.losses.map((loss) => 100 * loss), names, "input", "missing (%)");
  document.body.dataset.dump = dump.start;
}

element("matrix").addEventListener("click", (event) => {
  if (!cells) return;
  const [j, i] = [event.offsetX - cells.x0, event.offsetY - cells.y0].map((at) => Math.floor(at / cells.size));
  if (Math.min(i, j) < 0 || Math.max(i, j) >= cells.count) return;
  form.a.value = cells.first + i;
  form.b.value = cells.first + j;
  update();
});

watch();
