"use strict";
// Draws correlation curves, count rates and losses.

function request() {
  return new URLSearchParams(form.first.value === "" ? {} : { first: form.first.value });
}

// Decades of lags between two, in seconds.
function decades(low, high) {
  const found = [];
  for (let place = Math.ceil(low - 1e-9); place <= high + 1e-9; place++) found.push([place, duration(10 ** place)]);
  return found.length > 1 ? found : [low, high].map((place) => [place, duration(10 ** place)]);
}

// Curves against the logarithm of the lag; lag 0, which holds the shot noise, has no place there.
function correlations(id, lags, curves) {
  const known = curves.flatMap(({ g }) => g.filter((value, point) => value !== null && lags[point] > 0));
  if (known.length === 0) return;
  const places = lags.map((lag) => Math.log10(lag));
  const reach = range(places.filter((_, point) => lags[point] > 0 && curves.some(({ g }) => g[point] !== null)));
  const [low, high] = [Math.min(...known, 1), Math.max(...known, 1)];
  const room = 0.06 * (high - low || 1);
  const { pen, x, y, y0, y1 } = axes(
    id,
    { range: reach, name: "lag τ", ticks: decades(...reach) },
    { range: [low - room, high + room], name: "g(τ)" },
  );
  const inside = (value) => Math.min(y0, Math.max(y1, y(value)));
  curves.forEach(({ g, errors }, index) => {
    pen.strokeStyle = line(index);
    const value = (point) => (lags[point] > 0 ? g[point] : null);
    joined(pen, places.map((place, point) => [place, value(point)]), x, y);
    pen.beginPath();
    places.forEach((place, point) => {
      if (value(point) === null || errors[point] === null) return;
      pen.moveTo(x(place), inside(g[point] - errors[point]));
      pen.lineTo(x(place), inside(g[point] + errors[point]));
    });
    pen.stroke();
  });
}

function draw(live) {
  const look = live.look;
  if (!look) return;
  form.first.max = live.sensors - 1;
  state(
    `${live.sensors} sensors; ${duration(look.seconds)} correlated; ${number(100 * look.lost)} % of the instants lost`,
    1,
  );
  correlations("mean", look.lags, [look.mean]);
  correlations("curves", look.lags, look.curves);
  legend("legend", look.curves.map((_, index) => String(look.first + index)));
  const high = Math.max(...look.rates);
  const [unit, name] = high >= 1e3 ? [1e3, "rate (kHz)"] : [1, "rate (Hz)"];
  bars("rates", look.rates.map((rate) => rate / unit), null, "sensor", name);
  document.body.dataset.look = look.seconds;
}

watch();
