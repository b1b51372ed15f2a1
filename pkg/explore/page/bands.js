// The bands below the header: a lost connection, a state that is not now, a viewer with few
// permissions, a filter that matches nothing.
import { byId, clock, link, make, since } from "./dom.js";
import { session } from "./api.js";
import { again } from "./live.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** @typedef {{key: string, kind: "bad"|"warn"|"info", content: () => (Node|string)[]}} Band */

/**
 * drawBands draws those that have changed, so that each is said once.
 * @param {string[]} problems of the filter
 * @returns {boolean} true if what is shown has become old, or new again
 */
export function drawBands(problems) {
  const bands = [...connection(), ...world(), ...permissions(), ...filter(problems)];
  const box = byId("bands");
  const before = new Map([...box.children].map((child) => [/** @type {HTMLElement} */ (child).dataset.key, child]));
  box.replaceChildren(...bands.map(({ key, kind, content }) => {
    const old = before.get(key);
    if (old) return old;
    const band = make("div", "band " + kind, ...content());
    band.dataset.key = key;
    band.setAttribute("role", kind === "bad" ? "alert" : "status");
    return band;
  }));
  const was = document.body.classList.contains("old");
  return document.body.classList.toggle("old", store.isOld()) !== was;
}

/** @returns {Band[]} */
function connection() {
  const { lost, error, fleet } = store;
  /** @type {Band[]} */
  const bands = [];
  const old = "What is shown is the state of " + (fleet ? clock(fleet.at) : "before") + ". ";
  if (lost) {
    const at = new Date(lost.since).toISOString();
    bands.push({ key: "lost " + lost.problem, kind: "bad", content: () => [
      make("b", "", "The connection to berth explore was lost "), since(at), ". ", sentence(lost.problem), old, button("Try again now", again),
    ] });
  } else if (error) {
    bands.push({ key: "error " + error, kind: "bad", content: () => [make("b", "", "The state cannot be read. "), sentence(error), fleet ? old : "", button("Try again", again)] });
  }
  if (store.world || lost || !fleet) return bands;
  const { state, problem } = fleet.hub;
  if (state === "Lost") {
    bands.push({ key: "hub " + fleet.hub.since + problem, kind: "bad", content: () => [
      make("b", "", "The connection to the hub was lost "), since(fleet.hub.since), ". ", sentence(problem || ""), old, "It is being opened again.",
    ] });
  } else if (problem) {
    bands.push({ key: "hub " + state + problem, kind: "warn", content: () => [make("b", "", state === "Connecting" ? "Reading the hub. " : "Part of the hub is not known. "), sentence(problem)] });
  }
  return bands;
}

/** @param {string} text */
function sentence(text) {
  return text && text.trim().replace(/([.?!])?$/, (_, end) => (end || ".") + " ");
}

/** @returns {Band[]} */
function world() {
  const { world } = store;
  if (!world) return [];
  const now = () => (session.live ? link(route.href({ world: "" }), "", "Back to now") : "");
  if (world.startsWith("at-")) {
    const at = new Date(world.slice("at-".length));
    const said = isNaN(at.getTime()) ? world.slice("at-".length) : clock(at);
    return [{ key: world, kind: "info", content: () => [make("b", "", "At " + said + ". "), "This is the state that was recorded, not the one of now. ", now()] }];
  }
  return [{ key: world, kind: "info", content: () => [make("b", "", "What if… "), "This is the state after the edits of a what-if. Nothing was written. ", now()] }];
}

/** @returns {Band[]} */
function permissions() {
  const { namespace, missing } = store.fleet || {};
  if (!namespace && !missing?.length) return [];
  return [{ key: "ns " + namespace + missing?.join(), kind: "warn", content: () => {
    /** @type {(Node|string)[]} */
    const content = [];
    if (namespace) content.push(make("b", "", "You see namespace " + namespace + " only. "));
    if (missing?.length) content.push("You do not have these permissions: " + missing.join("; ") + ". ");
    if (namespace) content.push(chooseNamespace(namespace));
    return content;
  } }];
}

/** @param {string} namespace */
function chooseNamespace(namespace) {
  const input = make("input", "");
  input.name = "ns";
  input.value = namespace;
  input.setAttribute("aria-label", "Another namespace");
  const submit = make("button", "", "Show this namespace");
  const form = make("form", "inline", input, submit);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    route.go({ ns: input.value.trim(), view: route.main() });
  });
  return form;
}

/**
 * @param {string[]} problems
 * @returns {Band[]}
 */
function filter(problems) {
  if (!problems.length) return [];
  return [{ key: "filter " + problems.join(), kind: "warn", content: () => [problems.join(" ") + " ", button("Clear the filter", () => route.go({ filter: "" }))] }];
}

/**
 * @param {string} text
 * @param {() => void} does
 */
function button(text, does) {
  const element = make("button", "", text);
  element.type = "button";
  element.addEventListener("click", does);
  return element;
}
