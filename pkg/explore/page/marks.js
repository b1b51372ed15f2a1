// What the values of cells look like, and what they mean. See the constants in pkg/explore/api.go.
import { make, visible } from "./dom.js";
import { session } from "./api.js";
import { CRITICAL } from "./resilience.js";
import { store } from "./store.js";

/** @typedef {{text: string, said: string, style: string}} Mark */

/** @type {Object<string, [string, string]>} */
const VALUES = {
  0: ["", "no candidate"], 1: ["✓", "selected"], 2: ["○", "qualified, not selected"], 3: ["+", "would be added"], 4: ["−", "would be removed"],
  5: ["×", "excluded"], 6: ["?", "not known"],
};
/** @type {Mark} */
const LOADING = { text: "·", said: "not read yet", style: "cell mark m0" };

/** @type {Map<string, Mark>} */
const marks = new Map();
/** @type {string[]} */
let plugins = [];
/** @type {string[]} */
let order = [];
/** @type {string[]} those of order */
let letters = [];

/**
 * mark returns that of a value; of undefined while it is read.
 * @param {string|undefined} value
 * @returns {Mark}
 */
export function mark(value) {
  if (value === undefined) return LOADING;
  if (plugins !== store.plugins) {
    plugins = store.plugins;
    // By name, so that a plugin has the same letter and colour in every world.
    order = [...plugins].sort();
    letters = lettersOf(order);
    marks.clear();
  }
  let known = marks.get(value);
  if (!known) {
    const name = plugins[value.charCodeAt(0) - 65];
    const plugin = Math.max(0, order.indexOf(name));
    const [text, said] = VALUES[value] || [name ? letters[plugin] : "?", "excluded by " + (name || "another plugin")];
    known = { text, said, style: "cell mark " + (value in VALUES ? "m" + value : "p" + (plugin % 6)) };
    marks.set(value, known);
  }
  return known;
}

/**
 * lettersOf gives each plugin a letter of its name, if that is free.
 * @param {string[]} names
 */
export function lettersOf(names) {
  const taken = new Set();
  return names.map((plugin) => {
    const candidates = plugin.replace(/[^A-Z]/g, "") + plugin.toUpperCase() + "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const letter = [...candidates].find((c) => /[A-Z0-9]/.test(c) && !taken.has(c)) || "?";
    taken.add(letter);
    return letter;
  });
}

/** @type {unknown} */
let drawn = null;

/**
 * drawLegend says what the marks mean.
 * @param {HTMLElement} list
 */
export function drawLegend(list) {
  if (drawn === store.plugins) return;
  drawn = store.plugins;
  const values = ["1", "2", "3", "4", ...store.plugins.map((_, i) => String.fromCharCode(65 + i)), "5", "6", "0"];
  list.replaceChildren(...values.map((value) => {
    const { style, text, said } = mark(value);
    const sign = make("span", style.replace("cell ", ""), visible(text));
    sign.setAttribute("aria-hidden", "true");
    return make("li", "", sign, said);
  }), ...(session.resilience ? [make("li", "", make("span", "sign critical", CRITICAL), "not resilient")] : []));
}
