"use strict";
/* Search, filters, and the way from an address to a page. */

const $ = (id) => document.getElementById(id);
const FIRST_ROWS = 100;
const FAILED = (cell) => cell.outcome !== "pass" && !IDLE.has(cell.outcome);
const filters = { family: "", gpu: "", stack: "", what: "", level: "", outcome: "", who: "" };
const order = { column: "", down: false };
let limit = FIRST_ROWS, turn = 0, asking = 0, touched = false;

/* ---- search ---- */

async function lookUp(text) {
  const answer = $("answer"), mine = ++asking;
  if (!text.trim()) { answer.replaceChildren(); $("found").textContent = ""; return; }
  const { hits, unknown } = findGpus(text, start.gpus);
  const gpus = [...new Set(hits.map((hit) => hit.gpu))];
  if (!gpus.length) { answer.replaceChildren(notFound(unknown)); $("found").textContent = "Nothing found."; return; }
  const shownGpus = gpus.slice(0, 8), known = await cellsOf(shownGpus);
  if (mine !== asking) return; // another question was asked meanwhile
  const note = gpus.length === 1 ? "" : h("p", {}, prose(`This fits ${plural(gpus.length, "architecture")}. `
    + "Where one name stands for several chips, `invoke scan` asks the hardware which one you have."));
  answer.replaceChildren(note, ...shownGpus.map((gpu) => answerCard(gpu, hits, known.filter((cell) => cell.gpu === gpu))));
  $("found").textContent = `Found: ${gpus.map((gpu) => gpu.id).join(", ")}.`;
  if (gpus.length > shownGpus.length) answer.append(h("p", {}, `${gpus.length - shownGpus.length} more: type more of the name.`));
}

function notFound(unknown) {
  const what = unknown.length ? `${unknown.join(", ")} is in no list of this project. ` : "No GPU has such a name in the list of this project. ";
  return h("p", { class: "note" }, what, prose("Try the architecture: hipInfo prints it as gcnArchName, and `invoke scan` shows it."));
}

/** The short answer for one GPU: what stands, what failed, what to do. */
function answerCard(gpu, hits, found) {
  const names = [...new Set(hits.filter((hit) => hit.gpu === gpu && hit.name && hit.name !== gpu.id).map((hit) => hit.name))];
  const works = found.filter((cell) => cell.capability && cell.outcome === "pass" && cell.level >= 2)
    .sort((a, b) => (a.who > b.who) - (a.who < b.who) || b.level - a.level); // measured before reported
  const fails = found.filter((cell) => cell.capability && FAILED(cell));
  const list = (cellsOf) => h("ul", {}, cellsOf.slice(0, 6).map((cell) => h("li", {}, asked(cell), " with ", cell.stack.id || "a stack that is not named", ": ", shown(cell))),
    cellsOf.length > 6 ? h("li", {}, `and ${plural(cellsOf.length - 6, "more", "more")}`) : "");
  return h("div", { class: "card" },
    h("h2", {}, h("a", { href: route("gpu", gpu.id) }, gpu.id), names.length ? `: ${names.slice(0, 3).join(", ")}` : ""),
    found.length ? [h("h3", {}, "Functional or integrated"), works.length ? list(works) : h("p", {}, "nothing yet"),
      h("h3", {}, "Failed"), fails.length ? list(fails) : h("p", {}, "nothing that a document names")] : nothing(gpu),
    advice(gpu),
    h("p", {}, h("a", { href: route("gpu", gpu.id) }, `Everything about ${gpu.id}`), ` (${plural(found.length, "result")})`));
}

/* ---- the table with filters ---- */

function choose(id, any, values) {
  const chosen = filters[id.slice(2)];
  $(id).replaceChildren(h("option", { value: "" }, any), ...values.map(([value, text]) => h("option", { value }, text ?? value)));
  $(id).value = chosen;
}

function fillFilters() {
  const used = (list, key) => list.filter((item) => item.cells > 0).map((item) => [item[key]]);
  choose("f-family", "all", [...new Set(used(start.gpus, "family").flat())].map((name) => [name]));
  choose("f-gpu", "all", used(start.gpus, "id"));
  choose("f-stack", "all", start.stacks.filter((stack) => stack.cells > 0).map((stack) => [stack.id || "-", stackName(stack)]));
  choose("f-level", "any", start.levels.map((level) => [level]));
  choose("f-outcome", "any", [["failed", "any failure"], ["conflict", "documents disagree"], ...start.outcomes.map((outcome) => [outcome])]);
  choose("f-who", "anyone", start.who.map((who) => [who, who === "reported" ? "reported by others" : "measured with this tool"]));
  $("what-list").replaceChildren(...[...new Set(start.what.flat())].filter(Boolean).map((value) => h("option", { value })));
  $("f-what").value = filters.what;
}

function matches(cell) {
  const text = filters.what.trim().toLowerCase();
  return (!filters.stack || (cell.stack.id || "-") === filters.stack)
    && (!text || `${cell.capability} in ${cell.application}`.toLowerCase().includes(text))
    && (!filters.level || (cell.outcome === "pass" && cell.level >= start.levels.indexOf(filters.level)))
    && (!filters.outcome || (filters.outcome === "failed" ? FAILED(cell) : filters.outcome === "conflict" ? cell.conflict : cell.outcome === filters.outcome))
    && (!filters.who || cell.who === filters.who);
}

const SORT = {
  gpu: (cell) => cell.gpu.id, stack: (cell) => cell.stack.id, what: (cell) => `${cell.application} ${cell.capability}`,
  shown: (cell) => `${cell.outcome === "pass" ? 1 + cell.level : 0}`, seen: (cell) => cell.seen,
};

function sorted(found) {
  if (!order.column) return found;
  const keyed = found.map((cell) => [SORT[order.column](cell), cell]);
  keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (order.down ? -1 : 1));
  return keyed.map(([, cell]) => cell);
}

async function showCells() {
  const mine = ++turn;
  const gpus = start.gpus.filter((gpu) => (!filters.gpu || gpu.id === filters.gpu) && (!filters.family || gpu.family === filters.family));
  const found = sorted((await cellsOf(gpus)).filter(matches));
  if (mine !== turn) return; // a later change was faster
  touched = true;
  $("cells").tBodies[0].replaceChildren(...found.slice(0, limit).map(cellRow));
  const part = found.length > limit ? `, the first ${limit.toLocaleString("en")} are shown` : "";
  $("count").textContent = `${found.length.toLocaleString("en")} of ${plural(start.total, "result")}${part}.`;
  $("more").hidden = found.length <= limit;
}

function filterChanged() {
  for (const name of Object.keys(filters)) filters[name] = $(`f-${name}`).value;
  limit = FIRST_ROWS;
  keepAddress();
  return showCells();
}

/** Put every choice into the address; a column that is sorted downwards has a minus before it. */
function keepAddress() {
  const set = Object.entries({ ...filters, sort: (order.down ? "-" : "") + order.column }).filter(([, value]) => value);
  history.replaceState(null, "", set.length ? `#/results?${new URLSearchParams(set)}` : "#/results");
}

function sortBy(column) {
  setOrder(column, order.column === column && !order.down);
  keepAddress();
  return showCells();
}

function setOrder(column, down) {
  order.column = Object.hasOwn(SORT, column) ? column : "";
  order.down = down && order.column !== "";
  for (const head of $("cells").tHead.rows[0].cells) {
    if (head.dataset.sort === order.column) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

/* ---- addresses ---- */

const PAGES = {
  gpu: gpuPage, stack: stackPage, cell: cellPage,
  program: (name) => whatPage("application", name), capability: (name) => whatPage("capability", name),
};

async function showRoute() {
  if (location.hash && !location.hash.startsWith("#/")) return; // a plain anchor, such as the skip link's
  const [path, query] = location.hash.slice(2).split("?"), mine = ++turn;
  const [name, ...parts] = path.split("/").map(decoded);
  const page = PAGES[name] && await PAGES[name](...parts);
  if (mine !== turn) return;
  for (const section of document.querySelectorAll(".home")) section.hidden = Boolean(PAGES[name]);
  $("view").hidden = !PAGES[name];
  $("find-title").hidden = $("find-help").hidden = Boolean(PAGES[name]); // a page has a heading of its own
  $("view").replaceChildren();
  if (PAGES[name]) return showPage(page);
  document.title = "CUDA on AMD: what works on which GPU";
  if (name === "results") {
    const asked = new URLSearchParams(query || "");
    for (const key of Object.keys(filters)) filters[key] = asked.get(key) || "";
    const column = asked.get("sort") || "";
    setOrder(column.replace("-", ""), column.startsWith("-"));
    fillFilters();
    if (query || touched) await showCells();
  }
  const heading = $(`${name || "find"}-title`);
  if (heading && location.hash) { heading.focus(); heading.scrollIntoView(); }
}

function showPage(page) {
  const shownPage = page || { title: "There is no such page", body: [h("p", {}, "The matrix has nothing under this address. ", h("a", { href: "#/" }, "Back to the start"))] };
  const heading = h("h1", { tabindex: "-1" }, shownPage.title);
  $("view").append(h("div", {}, heading, shownPage.body));
  document.title = `${visible(shownPage.title)} - CUDA on AMD`;
  asking += 1; // an answer that is still on its way would stand above another page
  $("answer").replaceChildren();
  $("found").textContent = "";
  heading.focus();
  heading.scrollIntoView();
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** Show a data file that cannot be read; everything else is a fault of ours and goes to the console. */
function guarded(action) {
  return (...args) => Promise.resolve(action(...args)).catch((error) => {
    $("answer").replaceChildren(h("p", { class: "note" }, prose(`${error.message}. Reload the page, or build it again: \`invoke matrix\``)));
    throw error;
  });
}

/** Called once the first data are there. */
function boot() {
  const find = guarded(() => lookUp($("find-text").value));
  $("find-form").addEventListener("submit", (event) => { event.preventDefault(); find(); });
  $("find-text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); find(); }
  });
  $("find-text").addEventListener("paste", () => setTimeout(find));
  fillFilters();
  $("filters").hidden = false;
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("input", guarded(filterChanged));
  $("filters").addEventListener("reset", () => setTimeout(guarded(filterChanged)));
  $("more").hidden = start.total <= $("cells").tBodies[0].rows.length;
  $("more").addEventListener("click", guarded(async () => {
    const before = $("cells").tBodies[0].rows.length;
    limit = Math.max(before, limit) + 5 * FIRST_ROWS;
    await showCells();
    $("cells").tBodies[0].rows[before]?.querySelector("a").focus();
  }));
  for (const head of $("cells").tHead.rows[0].cells) {
    const button = h("button", { type: "button" }, head.textContent);
    button.addEventListener("click", guarded(() => sortBy(head.dataset.sort)));
    head.replaceChildren(button);
  }
  window.addEventListener("hashchange", guarded(showRoute));
  guarded(showRoute)();
}
