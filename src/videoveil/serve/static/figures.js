// What is known of a model, and the anomaly curve: tables and small drawings, made of elements, never of markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

const number = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

function interval(figure) {
  return figure.low === null || figure.high === null ? "no interval" : `${number(figure.low)} to ${number(figure.high)}`;
}

// The anonymized value with its interval, raw as a grey mark and chance as a dashed one, from 0 to 1.
function range(figure) {
  const words = `${number(figure.value)}, ${interval(figure)}, raw ${number(figure.raw)}, chance ${number(figure.chance)}`;
  const svg = draw("svg", { viewBox: "0 0 160 26", class: "range", role: "img", "aria-label": words });
  const x = (value) => 5 + 150 * Math.min(1, Math.max(0, value));
  svg.append(draw("line", { x1: 5, x2: 155, y1: 13, y2: 13, class: "axis" }));
  if (figure.raw !== null) svg.append(draw("line", { x1: x(figure.raw), x2: x(figure.raw), y1: 4, y2: 22, class: "mark-raw" }));
  if (figure.chance !== null) svg.append(draw("line", { x1: x(figure.chance), x2: x(figure.chance), y1: 4, y2: 22, class: "mark-chance" }));
  if (figure.low !== null) svg.append(draw("line", { x1: x(figure.low), x2: x(figure.high), y1: 13, y2: 13, class: "span" }));
  svg.append(draw("circle", { cx: x(figure.value), cy: 13, r: 4.5, class: "dot" }));
  return svg;
}

function figureRow(figure) {
  const fits = figure.value >= 0 && figure.value <= 1;
  const cell = (name, text) => make("td", { "data-name": name, class: "number" }, text);
  return make("tr", {},
    make("th", { scope: "row" }, figure.name),
    make("td", { "data-name": "about" }, figure.kind),
    make("td", { "data-name": "metric" }, figure.metric),
    cell("anonymized", number(figure.value)),
    cell("interval", interval(figure)),
    cell("raw", number(figure.raw)),
    cell("chance", number(figure.chance)),
    make("td", { class: "drawn" }, ...(fits ? [range(figure)] : [])));
}

function showFigures(model, table, verdict, note) {
  table.replaceChildren();
  verdict.replaceChildren();
  if (!model.figures.length) {
    verdict.textContent = `Nothing was measured of ${model.name}. Treat its videos as raw until you have attacked them yourself.`;
    note.textContent = "";
    return;
  }
  if (model.audit) {
    for (const about of ["privacy", "utility"]) {
      const good = model.audit[about] === "PASS";
      verdict.append(make("span", { class: `badge ${good ? "good" : "bad"}` }, `${about}: ${model.audit[about].toLowerCase()}`));
    }
    verdict.append(`audited on ${model.audit.data}${model.audit.synthetic ? " (synthetic people)" : ""}`);
  }
  const heads = ["attacker or use", "about", "metric", "anonymized", model.audit ? `${Math.round(100 * model.audit.level)} % interval` : "interval", "raw", "chance", "0 to 1"];
  const head = make("tr", {}, ...heads.map((text, place) => make("th", place >= 3 && place <= 6 ? { scope: "col", class: "number" } : { scope: "col" }, text)));
  table.append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...model.figures.map(figureRow))));
  note.textContent = "Privacy should be near chance (dashed), utility near raw (grey). Measured risk under the attackers that are named, on the data that are named, and nothing more.";
}

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

// The curve of {duration, spans}; gives back a function that moves the hand to a time.
function showAnomaly(found, place) {
  place.replaceChildren();
  if (!found.configured || !found.spans.length) {
    const why = !found.configured ? "No anomaly model is configured." : found.reason || "The video is too short to say anything.";
    place.append(make("p", { class: "soft" }, why));
    return () => {};
  }
  const highest = found.spans.reduce((best, span) => (span.score > best.score ? span : best));
  const words = `Anomaly score over ${clock(found.duration)}; highest ${number(highest.score)} at ${clock(highest.start)}.`;
  const svg = draw("svg", { viewBox: "0 0 600 120", preserveAspectRatio: "none", class: "curve", role: "img", "aria-label": words });
  const x = (seconds) => (600 * seconds) / Math.max(found.duration, 1e-6);
  const y = (score) => 112 - 104 * Math.min(1, Math.max(0, score));
  const points = found.spans.flatMap((span) => [`${x(span.start)},${y(span.score)}`, `${x(span.end)},${y(span.score)}`]).join(" ");
  svg.append(draw("line", { x1: 0, x2: 600, y1: 112, y2: 112, class: "axis" }), draw("line", { x1: 0, x2: 600, y1: 8, y2: 8, class: "axis" }));
  svg.append(draw("polygon", { points: `${x(found.spans[0].start)},112 ${points} ${x(found.spans.at(-1).end)},112`, class: "area" }), draw("polyline", { points, class: "line" }));
  const hand = draw("line", { x1: 0, x2: 0, y1: 4, y2: 116, class: "hand" });
  svg.append(hand);
  const ends = make("p", { class: "ends soft", "aria-hidden": "true" }, make("span", {}, "0:00"), make("span", {}, clock(found.duration)));
  place.append(svg, ends, make("p", { class: "soft" }, words));
  return (seconds) => { hand.setAttribute("x1", x(seconds)); hand.setAttribute("x2", x(seconds)); };
}
