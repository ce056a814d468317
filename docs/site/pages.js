"use strict";
/* The pages behind the addresses #/gpu/…, #/stack/…, #/program/…, #/capability/… and #/cell/… */

const LONG_LIST = 100;

/** A table of results that begins with the first hundred rows. */
function cellTable(caption, found) {
  const list = table(caption, ["GPU", "Stack", "What was asked", "What was shown", "Seen"], found.slice(0, LONG_LIST).map(cellRow));
  if (found.length <= LONG_LIST) return [list];
  const rest = h("button", { type: "button" }, `Show the other ${(found.length - LONG_LIST).toLocaleString("en")}`);
  rest.addEventListener("click", () => {
    list.tBodies[0].append(...found.slice(LONG_LIST).map(cellRow));
    list.rows[LONG_LIST + 1].querySelector("a").focus();
    rest.remove();
  });
  return [list, rest];
}

/** How many results stand at which level, as marks: measured first, the highest level first, failures behind. */
function tally(found) {
  const counts = new Map();
  for (const cell of found.filter((each) => each.capability)) {
    const idle = IDLE.has(cell.outcome), passed = cell.outcome === "pass", made = mark(cell);
    if (idle) made.textContent = "not tried";
    else if (!passed && cell.outcome !== "incorrect") made.textContent = "failed";
    const rank = (cell.who === "measured" ? 0 : 20) + (idle ? 9 : passed ? 3 - cell.level : cell.outcome === "incorrect" ? 7 : 8);
    counts.set(rank, { made, count: (counts.get(rank)?.count || 0) + 1 });
  }
  let who = "";
  return [...counts].sort(([a], [b]) => a - b).map(([rank, { made, count }]) => {
    made.prepend(`${count.toLocaleString("en")} `);
    const word = start.who[rank < 20 ? 0 : 1], first = word !== who;
    who = word;
    return [first && `${word}: `, made, " "];
  });
}

/** The given GPUs' figures that `wanted` keeps: a plot where there are several, a row where there is one. */
async function figures(gpus, wanted) {
  const drawn = [], single = [], columns = ["Figure", "Value", "Seen", "Who"];
  for (const gpu of gpus.filter((each) => each.figures)) {
    for (const series of (await loadChunk(`gpu-${gpu.file}`)).series) {
      const [s, w, metric] = series.key, [application, capability] = start.what[w], stack = start.stacks[s];
      if (!wanted({ gpu, stack, application, capability })) continue;
      const what = [capability, application].filter(Boolean).join(" in ") || "document";
      const title = `${metric}, ${what}, ${gpu.id}, ${stackName(stack)}`, [seen, value, who] = series.points[0];
      if (series.points.length > 1) drawn.push(plot(series, title));
      else single.push(row(columns, [title, `${figure(value)} ${series.unit}`, seen, start.who[who]]));
    }
  }
  const note = "Each point is one document; hollow points were only reported. Drivers, sizes and machines may differ between points.";
  return [
    drawn.length ? [h("h2", {}, "Figures over time"), h("p", { class: "faint" }, note), h("div", { class: "plots" }, drawn)] : "",
    single.length ? [h("h2", {}, "Single figures"), table("Figures that one document has, so that there is no course over time yet.", columns, single)] : "",
  ].flat();
}

async function gpuPage(id) {
  const gpu = start.gpus.find((each) => each.id === id);
  if (!gpu) return null;
  const found = await cellsOf([gpu]);
  const listing = start.stacks.filter((stack) => stack.gfx.includes(id));
  return { title: id, body: [
    facts([["Family", gpu.family], ["Sold as", gpu.names.join(", ")],
      ["Pinned stacks for it", listing.map((stack) => [h("a", { href: route("stack", stack.id) }, stack.id), " "]).flat()],
      ["Results", tally(found)]]),
    advice(gpu),
    found.length ? cellTable(`All results for ${id}`, found) : nothing(gpu),
    await figures([gpu], () => true),
  ] };
}

/** What to use by the documents on each system, and which commands know more about the machine they run on. */
function advice(gpu) {
  const systems = Object.entries(gpu.advice);
  if (!systems.length) return "";
  const more = `In a checkout: \`invoke stacks --for-gpu=${gpu.id}\` shows the reasons, \`invoke native --gpu=${gpu.id}\` the ways without translation.`;
  const sentences = systems.map(([system, sentence]) => h("p", {}, `On ${system}, by these documents: ${sentence}.`));
  return [...sentences, h("p", { class: "faint" }, prose(more))];
}

/** What to show where no document speaks about a GPU. */
function nothing(gpu) {
  return h("p", { class: "note" }, `No document speaks about ${gpu.id} yet. That means unknown: neither working nor failing. `,
    h("a", { href: "#/contribute" }, "Two commands add yours."));
}

async function stackPage(id) {
  const stack = start.stacks.find((each) => each.id === id);
  if (!stack) return null;
  const found = (await cellsOf(start.gpus)).filter((cell) => cell.stack === stack);
  const unpinned = "This combination was reported with a result. No stack of this project pins it, so it cannot be set up by name.";
  return { title: id || "A combination that is not named", body: [
    stack.pinned ? h("p", {}, stack.note) : h("p", { class: "note" }, unpinned),
    facts([["Kind", stack.kind], ["System", stack.os], ["HIP", stack.hip], ["Parts", stack.parts.join(", ")],
      ["Listed GPUs", stack.gfx.map((gfx) => [h("a", { href: route("gpu", gfx) }, gfx), " "]).flat()], ["Results", tally(found)]]),
    found.length ? cellTable(`All results with ${stackName(stack)}`, found) : h("p", { class: "note" }, "No document speaks about this stack on a GPU yet."),
    await figures(start.gpus, (point) => point.stack === stack),
  ] };
}

async function whatPage(field, name) {
  const found = (await cellsOf(start.gpus)).filter((cell) => cell[field] === name);
  if (!found.length) return null;
  return { title: name, body: [
    facts([["Kind", field === "application" ? "program" : "library, call family or probe"], ["Results", tally(found)]]),
    cellTable(`All results for ${name}`, found),
    await figures([...new Set(found.map((cell) => cell.gpu))], (point) => point[field] === name),
  ] };
}

async function cellPage(gpu, stack, application, capability) {
  const cell = (await cellsOf(start.gpus.filter((each) => each.id === gpu))).find((each) => each.stack.id === stack
    && each.application === application && each.capability === capability);
  if (!cell) return null;
  const detail = await loadChunk(`on-${cell.gpu.file}--${cell.stack.file}`);
  const seen = detail.cells[cell.w];
  const what = [capability, application].filter(Boolean).join(" in ") || "all checks of a document";
  const rests = seen.results.find((result) => result[0] === seen.rests);
  return { title: `${what}: ${gpu}, ${stackName(cell.stack)}`, body: [
    h("p", {}, "What stands: ", shown(cell), rests && rests[1] ? `, seen ${rests[1]}` : "", ". It rests on document ", h("code", {}, detail.documents[seen.rests].hash.slice(0, 12)), "."),
    cell.conflict ? h("p", { class: "note" }, "Documents disagree here. All of them are listed, newest first.") : "",
    facts([["GPU", h("a", { href: route("gpu", gpu) }, gpu)], ["Stack", h("a", { href: route("stack", stack) }, stackName(cell.stack))], ["Asked", asked(cell)]]),
    h("h2", {}, `Documents (${cell.count})`),
    seen.results.map((result) => documentCard(result, detail.documents[result[0]], cell)),
    seen.hidden ? h("p", { class: "faint" }, `${plural(seen.hidden, "older document")} more in evidence/, not listed here.`) : "",
    await figures([cell.gpu], (point) => point.stack === cell.stack && point.application === application && point.capability === capability),
  ] };
}

/** One document and what it says about this cell. */
function documentCard([, seen, level, outcome, detail], fact, cell) {
  const one = { level, outcome: start.outcomes[outcome], who: fact.who, conflict: false };
  const whole = { level: fact.level, outcome: start.outcomes[fact.outcome], who: fact.who };
  return h("div", { class: "card" }, h("h3", {}, seen || "no date", " ", mark(one), fact.who),
    detail ? h("p", {}, detail) : "",
    facts([
      ["Source", fact.url ? outside(fact.reporter, fact.url) : fact.who === "measured" ? "this project's tool, on the machine below" : fact.reporter],
      ["GPU", fact.gpu], ["System", fact.os], ["Driver", fact.driver], ["HIP", fact.hip.join(", ")],
      ["Whole document", cell.capability ? [mark(whole), "the lowest of what it exercised"] : ""],
      ["Not exercised", fact.idle.join(", ")], ["Notes", fact.notes.map((note) => h("div", {}, note))],
      ["File", fact.paths.map((path) => h("div", {}, h("code", {}, path)))], ["Hash of its content", h("code", {}, fact.hash)],
    ]));
}
