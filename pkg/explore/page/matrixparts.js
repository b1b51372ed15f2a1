// What the elements of the matrix show: heads of Placements and namespaces, names of clusters and
// groups, cells.
/** @import {PlacementRow} from "./types.js" */
import { make, plural, shorten, visible } from "./dom.js";
import { STATES } from "./states.js";
import { CRITICAL, isCritical } from "./resilience.js";
import { route } from "./route.js";
import { store } from "./store.js";

/**
 * A Part is an element of the matrix, with its place: -1 is the row of heads, or the column of names.
 * @typedef {HTMLElement & {row?: number, column?: number, drawn?: string}} Part
 */

/** @param {string} role */
export function newLine(role) {
  const name = make("div", "name");
  name.setAttribute("role", role);
  const line = /** @type {Part} */ (make("div", "row", name));
  line.setAttribute("role", "row");
  return line;
}

/**
 * @param {Part} element
 * @param {PlacementRow} p
 * @param {boolean} fresh true if it has just changed
 * @param {number} height of the heads
 */
export function drawHead(element, p, fresh, height) {
  const name = p.placement.slice(p.placement.indexOf("/") + 1), state = p.states[0];
  const wanted = p.wanted === null ? "all" : String(p.wanted), critical = isCritical(p.placement);
  const also = p.states.slice(1).find((one) => one !== "satisfied");
  const signs = [critical && make("span", "sign critical", CRITICAL), ...[also, state].map((s) => s && make("span", "sign s-" + s, STATES[s]?.sign || "?"))].filter(Boolean);
  element.className = "head" + (fresh ? " changed" : "");
  element.replaceChildren(...make("div", "",
    make("span", "label", shorten(name, Math.floor((height - 42 - 20 * signs.length) / 7))), ...signs, make("span", Math.max(p.selected, p.wanted || 0) > 999 ? "count long" : "count", make("b", "", String(p.selected)), "\n/" + wanted)).childNodes);
  const says = p.placement + ": " + p.states.join(", ") + ", " + p.selected + " selected of " + wanted + (critical ? ", not resilient" : "");
  element.setAttribute("aria-label", visible(says));
  element.title = visible([says, p.message, store.note(p.placement)].filter(Boolean).join("\n"));
}

/**
 * @param {Part} element
 * @param {string} namespace
 * @param {number} height of the heads
 */
export function drawNamespace(element, namespace, height) {
  element.className = "head ns";
  element.replaceChildren(make("span", "label", shorten(namespace, Math.floor(height / 7.4))));
  element.title = visible("Namespace " + namespace + ": click to see only this one");
}

/**
 * sum returns the number of selected clusters of a group, and says it.
 * @param {string|undefined} column
 * @param {number[]} of
 */
export function sum(column, of) {
  if (column === undefined) return ["", "not read yet"];
  let count = 0, some = false;
  for (const i of of) {
    if (column[i] === "1" || column[i] === "4") count++;
    if (column[i] !== "0") some = true;
  }
  return some ? [String(count), count + " selected"] : ["", "no candidate"];
}

/**
 * @param {Part} line
 * @param {Part} name
 * @param {import("./layout.js").Group} group
 * @param {number} width of names
 */
export function drawGroup(line, name, group, width) {
  line.className = "row group";
  write(name, "name", (group.closed ? "▸ " : "▾ ") + shorten(group.title, Math.max(6, Math.floor((width - 70) / 8))) + " (" + group.places.length + ")", group.title + ", " + plural(group.places.length, "cluster"));
  name.title = visible(group.title) + (route.get().group.startsWith("label:") ? "" : "\nA cluster is under its exclusive set. It is under default or global only if it has no other.");
  name.setAttribute("aria-expanded", String(!group.closed));
}

/**
 * @param {Part} line
 * @param {Part} name
 * @param {import("./types.js").ClusterRow} cluster
 * @param {number} width of names
 */
export function drawName(line, name, cluster, width) {
  line.className = "row";
  const gone = cluster.available === "False" || cluster.available === "Unknown";
  const says = [gone ? "not available" : "", cluster.drained ? "drained" : "", cluster.taints && !cluster.drained ? plural(cluster.taints, "taint") : ""].filter(Boolean);
  const sign = gone ? "! " : cluster.drained ? "↧ " : "";
  write(name, "name" + (gone ? " unavailable" : cluster.drained ? " drained" : ""), sign + shorten(cluster.name, Math.floor((width - 18) / 7.4)), [cluster.name, ...says].join(", "));
  name.title = visible([cluster.name, ...says, "sets: " + setsText(cluster)].join("\n"));
  name.removeAttribute("aria-expanded");
}

/**
 * children has a line hold as many elements as wanted after its name.
 * @param {Part} line
 * @param {number} wanted
 */
export function children(line, wanted) {
  while (line.childElementCount - 1 > wanted) line.lastElementChild?.remove();
  while (line.childElementCount - 1 < wanted) line.append(make("div", ""));
}

/**
 * @param {Part} element
 * @param {string} className
 * @param {string} rawText
 * @param {string} rawLabel
 */
export function write(element, className, rawText, rawLabel) {
  const text = visible(rawText), label = visible(rawLabel);
  if (element.textContent !== text) element.textContent = text;
  if (element.className !== className) element.className = className;
  if (label && element.getAttribute("aria-label") !== label) element.setAttribute("aria-label", label);
}

/**
 * setsText are the sets of a cluster.
 * @param {import("./types.js").ClusterRow} cluster
 */
export const setsText = (cluster) => cluster.sets?.join(", ") || (store.fleet?.setsNotKnown ? "not known" : "none");
