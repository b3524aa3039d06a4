// A line chart over the last minutes, drawn as SVG.

import { h, svg } from "./dom.js";
import { duration } from "./format.js";

const WIDTH = 600;
const HEIGHT = 160;
const LEFT = 52; // room for the numbers of the axis
const BOTTOM = 18;
const TOP = 8;
const SPAN_S_MIN = 60;
const SPAN_S_MAX = 300;
const US_PER_S = 1_000_000;
const STEPS = [1, 2, 5, 10];

/**
 * `series`: a list of {name, label}; `format` writes a value. `draw(points, now)` shows points of
 * a Throughput up to a time in seconds.
 */
export function lineChart({ title, series, format }) {
  const lines = series.map((one, place) => svg("path", { class: `line line-${place}` }));
  const marks = [0, 0.5, 1].map((part) => ({ part, text: svg("text", { class: "mark" }) }));
  const from = svg("text", { x: LEFT, y: HEIGHT - 4 });
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
    marks.map(({ part, text }) => {
      const y = heightOf(part);
      for (const [name, value] of [["x", LEFT - 6], ["y", y + 4]]) text.setAttribute(name, value);
      return [svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y, y2: y }), text];
    }),
    from,
    svg("text", { class: "mark", x: WIDTH, y: HEIGHT - 4 }, "now"),
    lines,
  );
  const values = series.map(() => h("output", {}, "…"));
  const legend = series.map((one, place) =>
    h("li", {}, h("span", { class: `key key-${place}` }), `${one.label} `, values[place]),
  );
  const node = h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("h2", {}, title), h("ul", {}, legend)),
    picture,
  );

  function draw(points, now) {
    const age = now - (points[0]?.at ?? now);
    const span = Math.min(Math.max(age, SPAN_S_MIN), SPAN_S_MAX);
    const seen = points.filter((point) => now - point.at <= span);
    const known = seen.filter((point) => point.rates !== null);
    const highest = Math.max(0, ...known.flatMap(({ rates }) => series.map((one) => rates[one.name])));
    const top = roundUp(highest);
    from.textContent = `${duration(Math.round(span) * US_PER_S)} ago`;
    for (const { part, text } of marks) text.textContent = format(top * part);
    const last = seen.at(-1)?.rates ?? null;
    const told = series.map((one, place) => {
      lines[place].setAttribute("d", pathOf(seen, one.name, { top, now, span }));
      values[place].textContent = last === null ? "…" : format(last[one.name]);
      return `${one.label} ${values[place].textContent}`;
    });
    picture.setAttribute("aria-label", `${title}: ${told.join(", ")}; at most ${format(highest)}`);
  }

  return { node, draw };
}

function pathOf(points, name, { top, now, span }) {
  let isDrawing = false;
  return points
    .map(({ at, rates }) => {
      const command = isDrawing ? "L" : "M";
      isDrawing = rates !== null;
      if (rates === null) return "";
      const x = WIDTH - ((now - at) / span) * (WIDTH - LEFT);
      return `${command}${x.toFixed(1)} ${heightOf(rates[name] / top).toFixed(1)}`;
    })
    .join("");
}

function heightOf(part) {
  return TOP + (1 - part) * (HEIGHT - TOP - BOTTOM);
}

/** The next of 1, 2, 5, 10, 20, …; 1 for nothing. */
function roundUp(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return STEPS.find((step) => value <= step * power) * power;
}
