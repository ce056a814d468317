"use strict";
/* Chunks of data, elements, and the marks and rows that every page shares. Text goes in as text, never as HTML. */

let start = null;           // data/start.js: the lists that numbers in other chunks point into
const chunks = new Map();   // name -> {promise, done}

/** Called by every data file. */
function matrixChunk(name, data) {
  if (name === "start") { start = data; boot(); } else chunks.get(name)?.done(data);
}

/** Load data/NAME.js once. A script element works from a folder as well as from a server. */
function loadChunk(name) {
  if (!chunks.has(name)) {
    const entry = {};
    entry.promise = new Promise((done, failed) => {
      entry.done = done;
      const script = document.createElement("script");
      script.src = `data/${name}.js`;
      script.onerror = () => { chunks.delete(name); failed(new Error(`data/${name}.js could not be read`)); };
      document.head.append(script);
    });
    chunks.set(name, entry);
  }
  return chunks.get(name).promise;
}

/** The results of some GPUs as objects, in the order of the build. */
async function cellsOf(gpus) {
  const parts = await Promise.all(gpus.filter((gpu) => gpu.cells).map((gpu) => loadChunk(`gpu-${gpu.file}`)));
  return parts.flatMap((part) => part.made ||= part.rows.map(([g, s, w, level, outcome, who, seen, count, conflict]) => ({
    gpu: start.gpus[g], stack: start.stacks[s], application: start.what[w][0], capability: start.what[w][1], w,
    level, outcome: start.outcomes[outcome], who: start.who[who], seen, count, conflict: Boolean(conflict),
  })));
}

/** A text as it may be shown: nothing in it that turns, hides or breaks other text. */
const visible = (text) => String(text).replace(/(?! )[\p{C}\p{Z}]/gu, " ");

/** Make an element; attributes that are null, undefined or false are left out. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== "" && child !== false);
  element.append(...kept.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

/** A sentence of ours; what stands between backticks is code. */
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
const route = (...parts) => `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
/** A figure with four digits that mean something. */
const figure = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
const plural = (count, word, many) => `${count.toLocaleString("en")} ${count === 1 ? word : many || `${word}s`}`;
const stackName = (stack) => stack.id || "not named";

/** A link to a public source; anything but https stays text. */
function outside(text, url) {
  return /^https:\/\/[^\s]+$/i.test(url) ? h("a", { href: url, rel: "noreferrer noopener" }, text || url) : h("span", {}, text || url);
}

const IDLE = new Set(["unavailable", "not-reached"]);

/** What was shown: the level of a pass, else the outcome; a reported one never looks like a measured one. */
function mark(cell) {
  const passed = cell.outcome === "pass";
  const word = passed ? (cell.level < 0 ? "nothing shown" : start.levels[cell.level]) : cell.outcome;
  const kind = IDLE.has(cell.outcome) || (passed && cell.level < 0) ? "idle" : passed ? "pass" : "fail";
  return h("span", { class: `mark ${cell.who} ${kind}` }, word);
}

function shown(cell) {
  const reached = cell.outcome !== "pass" && cell.level >= 0 ? `, reached ${start.levels[cell.level]}` : "";
  return [mark(cell), `${cell.who}${reached}`, cell.conflict && " ", cell.conflict && h("span", { class: "mark conflict" }, "conflict")];
}

/** Link what was asked: the program's page and the capability's. */
function asked(cell) {
  const program = cell.application && h("a", { href: route("program", cell.application) }, cell.application);
  const capability = cell.capability && h("a", { href: route("capability", cell.capability) }, cell.capability);
  if (program && capability) return [capability, " in ", program];
  return [program || capability || "all checks of a document"];
}

/** One row of the table of results. */
function cellRow(cell) {
  const to = route("cell", cell.gpu.id, cell.stack.id, cell.application, cell.capability);
  return h("tr", { role: "row" },
    h("th", { role: "rowheader", scope: "row", "data-name": "GPU" }, h("a", { href: route("gpu", cell.gpu.id) }, cell.gpu.id)),
    h("td", { role: "cell", "data-name": "Stack" }, h("a", { href: route("stack", cell.stack.id) }, stackName(cell.stack))),
    h("td", { role: "cell", "data-name": "Asked" }, asked(cell)),
    h("td", { role: "cell", "data-name": "Shown" }, shown(cell)),
    h("td", { role: "cell", "data-name": "Seen" }, h("span", { class: "seen" }, cell.seen || "no date"), " ", h("a", { href: to }, plural(cell.count, "document"))));
}

function table(caption, columns, rows) {
  const head = columns.map((name) => h("th", { role: "columnheader", scope: "col" }, name));
  return h("table", { role: "table" }, h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)), h("tbody", { role: "rowgroup" }, rows));
}

/** A row of plain cells; the first one heads it. */
function row(columns, values) {
  return h("tr", { role: "row" }, values.map((value, i) => i === 0
    ? h("th", { role: "rowheader", scope: "row", "data-name": columns[i] }, value)
    : h("td", { role: "cell", "data-name": columns[i] }, value)));
}

function facts(pairs) {
  const kept = pairs.filter(([, value]) => value && value.length !== 0);
  return h("dl", { class: "facts" }, kept.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** Figures of one series over time as a small picture with its zero line, and the same numbers as a table. */
function plot(series, title) {
  const [width, height, left, base] = [320, 130, 8, 108];
  const times = series.points.map(([seen]) => Date.parse(seen)), values = series.points.map(([, value]) => value);
  const first = Math.min(...times), last = Math.max(...times);
  const top = Math.max(...values, 0), low = Math.min(...values, 0), span = top - low || 1;
  const y = (value) => base - 84 * (value - low) / span;
  const at = (i) => [last > first ? left + 304 * (times[i] - first) / (last - first) : width / 2, y(values[i])];
  const svg = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.append(visible(text));
    return element;
  };
  const unit = series.unit ? ` ${series.unit}` : "", latest = values[values.length - 1];
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": visible(`${title}: ${plural(values.length, "figure")}, newest ${figure(latest)}${unit}, largest ${figure(Math.max(...values))}${unit}`) });
  picture.append(svg("line", { x1: 0, x2: width, y1: y(0), y2: y(0) }));
  picture.append(svg("path", { d: values.map((_, i) => `${i ? "L" : "M"}${at(i).map((n) => n.toFixed(1)).join(" ")}`).join("") }));
  series.points.forEach(([, , who], i) => {
    const [cx, cy] = at(i);
    picture.append(svg("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3, class: start.who[who] }));
  });
  picture.append(svg("text", { x: left, y: 124 }, series.points[0][0]), svg("text", { x: left, y: 15 }, `${figure(top)}${unit}`));
  if (last > first) picture.append(svg("text", { x: width - left, y: 124, "text-anchor": "end" }, series.points[values.length - 1][0]));
  const columns = ["Seen", "Figure", "Who"];
  const numbers = series.points.map(([seen, value, who]) => row(columns, [seen, `${figure(value)}${unit}`, start.who[who]]));
  return h("figure", {}, h("figcaption", {}, title), picture,
    h("details", {}, h("summary", {}, `The numbers (${values.length})`), table(title, columns, numbers)));
}
