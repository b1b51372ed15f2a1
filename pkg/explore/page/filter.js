// The language of the filter field. Nothing here reads the page or the URL.
//
//   state:held            Placements in a state; also state:held,stuck
//   ns:team-*             Placements of a namespace
//   placement:web*        Placements by name; with a "/", by NAMESPACE/NAME
//   set:prod              clusters of a set, and the Placements that may select from it
//   cluster:par*          clusters by name
//   label:region=eu       clusters with a label; label:region is any value
//   available:false       clusters by availability: true, false, unknown or unset
//   drained:true          drained clusters; tainted:true those with a taint
//   web                   Placements and clusters with this in their name
//
// All terms must hold. A term that begins with - must not. * stands for any text; a comma separates
// alternatives. Upper and lower case are the same.
/** @import {ClusterRow, PlacementRow} from "./types.js" */

/** @typedef {{text: string, key: string, value: string, negate: boolean}} Term */
/** @typedef {{terms: Term[], problems: string[]}} Filter */
/** @typedef {{placements: PlacementRow[], clusters: ClusterRow[], problems: string[]}} Result */

/** @type {Object<string, (row: PlacementRow) => string[]|undefined>} what a key compares of a Placement; undefined if it is not known */
const OF_PLACEMENT = {
  state: (p) => p.states,
  ns: (p) => [p.placement.split("/")[0]],
  placement: (p) => [p.placement.slice(p.placement.indexOf("/") + 1), p.placement],
  set: (p) => p.sets,
};

/** @type {Object<string, (row: ClusterRow) => string[]>} what a key compares of a cluster */
const OF_CLUSTER = {
  set: (c) => c.sets || [],
  cluster: (c) => [c.name],
  label: (c) => Object.entries(c.labels || {}).flatMap(([key, value]) => [key, key + "=" + value]),
  available: (c) => [(c.available || "unset").toLowerCase()],
  drained: (c) => [String(Boolean(c.drained))],
  tainted: (c) => [String(Boolean(c.taints))],
};

export const KEYS = [...new Set([...Object.keys(OF_PLACEMENT), ...Object.keys(OF_CLUSTER)])];

/**
 * parse reads the text of a filter.
 * @param {string} text
 * @returns {Filter}
 */
export function parse(text) {
  /** @type {Filter} */
  const filter = { terms: [], problems: [] };
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const negate = word.length > 1 && word.startsWith("-");
    const rest = negate ? word.slice(1) : word;
    const colon = rest.indexOf(":");
    if (colon < 0) {
      filter.terms.push({ text: word, key: "", value: rest.toLowerCase(), negate });
      continue;
    }
    const [key, value] = [rest.slice(0, colon).toLowerCase(), rest.slice(colon + 1).toLowerCase()];
    if (!KEYS.includes(key)) filter.problems.push("There is no filter “" + key + ":”. There are " + KEYS.map((k) => k + ":").join(" ") + " and parts of names.");
    else if (!value) filter.problems.push("“" + key + ":” needs a value, such as " + EXAMPLES[key] + ".");
    else filter.terms.push({ text: word, key, value, negate });
  }
  return filter;
}

/** @type {Object<string, string>} */
const EXAMPLES = {
  state: "state:held", ns: "ns:team-*", placement: "placement:web*", set: "set:prod", cluster: "cluster:par*", label: "label:region=eu",
  available: "available:false", drained: "drained:true", tainted: "tainted:true",
};

/**
 * tester returns a function that says whether a text matches one of the values of a term.
 * @param {string} value
 * @param {boolean} part true if a part of the text is enough
 */
function tester(value, part) {
  const patterns = value.split(",").filter(Boolean).map((one) => (part ? "*" + one + "*" : one).split("*"));
  return (/** @type {string} */ text) => patterns.some((pieces) => hasInOrder(text.toLowerCase(), pieces));
}

/**
 * hasInOrder says whether a text has pieces in their order: it begins with the first one and ends with the
 * last one, with any text between them.
 * @param {string} text
 * @param {string[]} pieces
 */
function hasInOrder(text, pieces) {
  const first = pieces[0], last = pieces[pieces.length - 1];
  if (pieces.length === 1) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= text.length - last.length;
}

/**
 * test returns the test of a term on the rows of one kind; null if the term is not about them.
 * @template Row
 * @param {Term} term
 * @param {Object<string, (row: Row) => string[]|undefined>} of
 * @param {(row: Row) => string} nameOf
 * @returns {((row: Row) => boolean)|null}
 */
function test(term, of, nameOf) {
  const fits = tester(term.value, !term.key);
  if (!term.key) return (row) => fits(nameOf(row)) !== term.negate;
  const values = of[term.key];
  if (!values) return null;
  return (row) => {
    const all = values(row);
    if (!all) return true;
    // A Placement that may select from other sets, too, is not left out with one set.
    if (term.negate && term.key === "set" && all.length > 1) return all.some((one) => !fits(one));
    return all.some(fits) !== term.negate;
  };
}

/**
 * apply returns what a filter leaves of the Placements and clusters, and says which term leaves
 * nothing. A part of a name restricts the kind that has it: Placements, clusters, or both.
 * @param {Filter} filter
 * @param {PlacementRow[]} placements
 * @param {ClusterRow[]} clusters
 * @returns {Result}
 */
export function apply(filter, placements, clusters) {
  /** @type {Result} */
  const result = { placements, clusters, problems: [...filter.problems] };
  for (const term of filter.terms) {
    const forPlacement = test(term, OF_PLACEMENT, (/** @type {PlacementRow} */ p) => p.placement);
    const forCluster = test(term, OF_CLUSTER, (/** @type {ClusterRow} */ c) => c.name);
    const leftPlacements = forPlacement ? result.placements.filter(forPlacement) : result.placements;
    const leftClusters = forCluster ? result.clusters.filter(forCluster) : result.clusters;
    const none = (forPlacement && !leftPlacements.length ? 1 : 0) + (forCluster && !leftClusters.length ? 1 : 0);
    const asked = (forPlacement ? 1 : 0) + (forCluster ? 1 : 0);
    if (none === asked) result.problems.push(nothing(term, placements, clusters));
    if (none === asked || leftPlacements.length || term.key) result.placements = leftPlacements;
    if (none === asked || leftClusters.length || term.key) result.clusters = leftClusters;
  }
  return result;
}

/**
 * nothing says that a term leaves nothing, and what it could have been.
 * @param {Term} term
 * @param {PlacementRow[]} placements
 * @param {ClusterRow[]} clusters
 */
function nothing(term, placements, clusters) {
  const values = valuesOf(term.key, placements, clusters).slice(0, 8);
  return "Nothing matches “" + term.text + "”" + (values.length ? ". There is " + values.map((v) => term.key + ":" + v).join(", ") + (values.length === 8 ? ", …" : "") : "") + ".";
}

/**
 * valuesOf returns the values that a key can have, sorted.
 * @param {string} key
 * @param {PlacementRow[]} placements
 * @param {ClusterRow[]} clusters
 */
export function valuesOf(key, placements, clusters) {
  const values = new Set();
  if (["placement", "cluster", ""].includes(key)) return [];
  if (OF_PLACEMENT[key]) for (const row of placements) for (const value of OF_PLACEMENT[key](row) || []) values.add(value);
  if (OF_CLUSTER[key]) for (const row of clusters) for (const value of OF_CLUSTER[key](row)) values.add(value);
  return /** @type {string[]} */ ([...values]).sort();
}

/**
 * suggest completes the last word of a text: keys, then values.
 * @param {string} text
 * @param {PlacementRow[]} placements
 * @param {ClusterRow[]} clusters
 * @returns {string[]} whole texts
 */
export function suggest(text, placements, clusters) {
  const start = text.slice(0, text.length - (/\S*$/.exec(text)?.[0].length || 0));
  const word = text.slice(start.length), dash = word.startsWith("-") ? "-" : "";
  const rest = word.slice(dash.length).toLowerCase(), colon = rest.indexOf(":");
  const key = rest.slice(0, Math.max(0, colon));
  const all = colon < 0 ? KEYS.map((k) => k + ":") : valuesOf(key, placements, clusters).map((value) => key + ":" + value);
  return all.filter((one) => one.toLowerCase().startsWith(rest)).slice(0, 20).map((one) => start + dash + one);
}

/**
 * termOf returns the value of the term of a filter that begins so; empty if there is none.
 * @param {string} text
 * @param {string} start such as "state:" or "label:region="
 */
export const termOf = (text, start) => text.split(/\s+/).find((word) => word.startsWith(start))?.slice(start.length) || "";

/**
 * withTerm returns a filter in which one term has another value.
 * @param {string} text
 * @param {string} start such as "state:" or "label:region="
 * @param {string} value empty to remove the term
 */
export function withTerm(text, start, value) {
  return [...text.split(/\s+/).filter((word) => word && !word.startsWith(start)), value && start + value].filter(Boolean).join(" ");
}
