"use strict";
// Draws correlation curves, count rates and losses.

// Curves against the logarithm of the lag; lag 0, which holds the shot noise, has no place there.
function correlations(id, lags, curves, colours) {
  const known = curves.flatMap(({ g }) => g.filter((value, point) => value !== null && lags[point] > 0));
  if (known.length === 0) return;
  const places = lags.map((lag) => Math.log10(lag));
  const reach = places.filter((place, point) => lags[point] > 0 && curves.some(({ g }) => g[point] !== null));
  const [low, high] = [Math.min(...known, 1), Math.max(...known, 1)];
  const room = 0.05 * (high - low || 1);
  const { pen, x, y, y0, y1 } = axes(
    id,
    [Math.min(...reach), Math.max(...reach)],
    [low - room, high + room],
    (place) => number(10 ** place),
  );
  const inside = (value) => Math.min(y0, Math.max(y1, y(value)));
  curves.forEach(({ g, errors }, index) => {
    pen.strokeStyle = pen.fillStyle = colours(index);
    pen.beginPath();
    let drawing = false;
    g.forEach((value, point) => {
      if (value === null || lags[point] === 0) {
        drawing = false;
        return;
      }
      pen[drawing ? "lineTo" : "moveTo"](x(places[point]), y(value));
      drawing = true;
    });
    pen.stroke();
    pen.beginPath();
    g.forEach((value, point) => {
      if (value === null || lags[point] === 0 || errors[point] === null) return;
      pen.moveTo(x(places[point]), inside(value - errors[point]));
      pen.lineTo(x(places[point]), inside(value + errors[point]));
    });
    pen.stroke();
  });
}

function rates(look) {
  const high = Math.max(...look.rates, 1e-12);
  const { pen, x, y, y0 } = axes("rates", [0, look.rates.length], [0, high * 1.05]);
  look.rates.forEach((rate, sensor) => {
    pen.fillStyle = line(sensor);
    const width = Math.max(x(sensor + 1) - x(sensor) - 1, 1);
    pen.fillRect(x(sensor), y(rate), width, y0 - y(rate));
  });
}

function draw(live) {
  tables(live.metrics);
  const look = live.look;
  if (!look) return;
  element("state").textContent =
    `${live.sensors} sensors, ${number(look.seconds)} s, ${number(100 * look.lost)} % of the instants lost`;
  const shown = look.curves.map((_, index) => look.first + index);
  const list = element("sensors");
  list.replaceChildren(
    ...shown.map((sensor) => {
      const name = document.createElement("span");
      name.textContent = ` ${sensor}`;
      name.style.color = line(sensor);
      return name;
    }),
  );
  correlations("mean", look.lags, [look.mean], () => line(0));
  correlations("curves", look.lags, look.curves, (index) => line(look.first + index));
  rates(look);
  document.body.dataset.look = look.seconds;
}

watch();
