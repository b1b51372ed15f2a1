// The table of all clusters: health, set, version, taints, resources and Placements of each.
/** @import {ClusterRow} from "./types.js" */
import { amount } from "./cluster.js";
import { byId, link, make, plural, visible } from "./dom.js";
import { regionKey } from "./layout.js";
import { setsText } from "./matrixparts.js";
import { button } from "./parts.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** ROWS is how many rows are shown until somebody asks for all. */
const ROWS = 200;
/** HEALTH are the words for the availability of clusters, the worst first. */
const HEALTH = /** @type {Object<string, string>} */ ({ False: "unavailable", Unknown: "unknown", "": "not reported", True: "available" });

/** @typedef {{name: string, text: (c: ClusterRow) => string, by?: (c: ClusterRow) => number|string, number?: boolean}} TableColumn */

/** usage is what is requested of a resource. @param {ClusterRow} c @param {string} name */
const usage = (c, name) => c.usage?.find((r) => r.name === name);
/** @param {string} name @returns {TableColumn} */
const resource = (name) => ({
  name,
  text: (c) => (usage(c, name) ? (usage(c, name)?.requested || "0") + " of " + (usage(c, name)?.allocatable || "?") : ""),
  by: (c) => amount(usage(c, name)?.requested || "0") / (amount(usage(c, name)?.allocatable || "0") || Infinity),
});

/** @param {string} region the key of its label @returns {TableColumn[]} */
const columnsOf = (region) => [
  { name: "cluster", text: (c) => c.name },
  { name: "health", text: (c) => (!c.available && store.lacks("managedclusters") ? "not known" : HEALTH[c.available || ""]) + (c.drained ? ", drained" : ""), by: (c) => Object.keys(HEALTH).indexOf(c.available || "") * 2 + Number(!c.drained) },
  { name: "set", text: setsText },
  ...(region ? [{ name: "region", text: (/** @type {ClusterRow} */ c) => c.labels?.[region] || "" }] : []),
  { name: "version", text: (c) => c.version || "", by: (c) => (c.version || "").replace(/\d+/g, (n) => n.padStart(6, "0")) },
  { name: "taints", text: (c) => String(c.taints || 0), by: (c) => c.taints || 0, number: true },
  resource("cpu"), resource("memory"),
  { name: "Placements", text: (c) => String(c.decisions || 0), by: (c) => c.decisions || 0, number: true },
];

let whole = false;

/**
 * drawClusters draws the table anew.
 * @param {ClusterRow[]} clusters by name
 */
export function drawClusters(clusters) {
  const section = byId("clusters");
  const unread = store.unread();
  if (unread || !clusters.length) return section.replaceChildren(make("p", "verdict", unread || store.none("cluster")));
  const focused = section.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.key : "";
  const columns = columnsOf(regionKey(store.fleet?.clusters || []));
  const { order } = route.get(), down = order.startsWith("-"), name = order.replace("-", "");
  const column = columns.find((one) => one.name === name);
  const by = column && (column.by || column.text);
  const sorted = by ? [...clusters].sort((a, b) => (by(a) === by(b) ? 0 : by(a) < by(b) ? -1 : 1) * (down ? -1 : 1)) : clusters;
  const head = make("tr", "", ...columns.map((one) => {
    const here = one === (column || columns[0]);
    const b = button(one.name + (here ? (down ? " ▼" : " ▲") : ""), () => route.go({ order: (here && !down ? "-" : "") + one.name }));
    b.dataset.key = one.name;
    const cell = make("th", one.number ? "numeric" : "", b);
    cell.scope = "col";
    if (here) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    return cell;
  }));
  const rows = sorted.slice(0, whole ? sorted.length : ROWS).map((c) => make("tr", "", ...columns.map((one, i) => {
    const text = one.text(c), bad = one.name === "health" && (c.available === "False" || c.available === "Unknown");
    if (i === 0) return make("td", "", link(route.href({ view: "cluster", cluster: c.name }), "", text));
    return make("td", [one.number && "numeric", bad && "bad"].filter(Boolean).join(" "), visible(text));
  })));
  const more = rows.length < sorted.length && button("Show all " + sorted.length.toLocaleString("en"), () => {
    whole = true;
    drawClusters(clusters);
  }, "more");
  const count = clusters.length === store.fleet?.clusters.length ? plural(clusters.length, "cluster") : clusters.length.toLocaleString("en") + " of " + plural(store.fleet?.clusters.length || 0, "cluster");
  section.replaceChildren(make("p", "verdict", count), make("table", "", make("thead", "", head), make("tbody", "", ...rows)), more || "");
  if (focused) /** @type {HTMLElement|null} */ (section.querySelector('[data-key="' + focused + '"]'))?.focus({ preventScroll: true });
}
