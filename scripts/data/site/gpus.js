"use strict";
/* What a person typed or pasted, as architectures of AMD. Text and the list of GPUs in, a list out. */

/** Split a product's name into words and numbers, without what people leave out; as scripts/evidence does for `stacks --for-gpu`. */
function words(text) {
  return (text.toLowerCase().match(/[a-z]+|\d+/g) || []).filter((word) => !start.filler.includes(word));
}

/** The values behind `Name:` where the text is the output of hipInfo or of a like tool. */
function pastedNames(text) {
  const named = /(?:^|[\r\n]|device#\s*\d+)\s*(?:Marketing Name|Board Name|Name)\s*:\s*([^\r\n]+)/gi;
  return [...text.matchAll(named)].map((match) => match[1].trim());
}

/** GPUs with an architecture's name in the text; `gfx90a:xnack-` is gfx90a. */
function byArchitecture(text, gpus) {
  const ids = [...text.matchAll(/gfx([0-9a-f]{3,5})/gi)].map((match) => match[0].toLowerCase());
  const found = [];
  for (const id of ids) {
    // On one line the next label may be glued to it: the longest architecture we know decides.
    const known = gpus.filter((gpu) => id.startsWith(gpu.id)).sort((a, b) => b.id.length - a.id.length)[0];
    if (known && !found.includes(known)) found.push(known);
  }
  return { found, unknown: found.length ? [] : [...new Set(ids)] };
}

/** GPUs that a product's name stands for: the same words first, else names that have them all. */
function byName(text, gpus) {
  const asked = words(text), whole = asked.join(" ");
  if (!whole) return [];
  const hits = [];
  for (const gpu of gpus) {
    for (const name of gpu.names) {
      const has = words(name);
      if (asked.every((word) => has.includes(word))) hits.push({ gpu, name, exact: has.join(" ") === whole });
    }
  }
  const exact = hits.filter((hit) => hit.exact);
  return exact.length ? exact : hits;
}

/** Return {hits: [{gpu, name, exact}], unknown: [architectures that are in no list]}. */
function findGpus(text, gpus) {
  const { found, unknown } = byArchitecture(text, gpus);
  if (found.length) return { hits: found.map((gpu) => ({ gpu, name: "", exact: true })), unknown };
  const names = pastedNames(text);
  const hits = (names.length ? names : [text]).flatMap((name) => byName(name, gpus));
  return { hits: unknown.length ? [] : hits, unknown };
}
