// The details of a cluster: what it is, what it has, and which Placements have it.
/** @import {Content} from "./dom.js" */
/** @import {ClusterDetails, Resource} from "./types.js" */
import { actionButtons } from "./actions.js";
import { get } from "./api.js";
import { copyButton, make, plural, since } from "./dom.js";
import { bar, cellLink, conditionList, copied, cutList, filterLink, measured, pairs, placementLink, section, show } from "./parts.js";
import { store } from "./store.js";
import { whatIfLink } from "./whatif.js";
import { yamlOf } from "./yaml.js";

/**
 * @param {HTMLElement} panel
 * @param {string} name
 */
export function showCluster(panel, name) {
  const ask = () => /** @type {Promise<ClusterDetails>} */ (get("api/cluster", { cluster: name, world: store.world }));
  return show(panel, ["cluster", name, store.world].join(" "), [copied(make("span", "", name), name)], ask, tell);
}

/** @param {ClusterDetails} d @returns {Content[]} */
function tell(d) {
  const selectedBy = d.selectedBy || [];
  return [
    make("p", "verdict", said(d)),
    d.note && make("p", "waits-for", d.note),
    actionButtons(d.actions || [], { cluster: d.name }),
    make("p", "", whatIfLink([{ kind: "drain", cluster: d.name }], "What if it were drained…"), " ",
      whatIfLink([{ kind: "taint", cluster: d.name, key: "", effect: "NoSelect" }], "What if it had a taint…")),
    section("Selected for " + plural(selectedBy.length, "Placement"), selectedBy.length
      ? cutList(selectedBy, (p) => make("span", "", placementLink(p), " ", cellLink(p, d.name, "why")), "Placements that have the cluster")
      : make("p", "quiet", "No Placement has this cluster.")),
    d.openChanges?.length && section("Open changes", cutList(d.openChanges, (move) => make("span", "",
      make("span", move.added ? "added" : "removed", move.added ? "+ added to " : "− removed from "), placementLink(move.placement), " ",
      cellLink(move.placement, d.name, "why"), move.state && " (" + move.state + ")"), "open changes")),
    d.evictions?.length && section("Evictions", cutList(d.evictions, (e) => make("span", "", placementLink(e.placement), ": " + e.text + " (", copied(make("span", "", e.name), e.name), ")"), "evictions")),
    d.conditions?.length && section("Conditions", conditionList(d.conditions)),
    d.taintList?.length && section("Taints", make("ul", "names", ...d.taintList.map((t) => make("li", "", copied(make("span", "", t.text), t.text), " ", since(t.since))))),
    section("Cluster sets", d.sets?.length ? make("ul", "names", ...d.sets.map((set) => make("li", "", filterLink(set, "set:" + set)))) : make("p", "quiet", "In no cluster set.")),
    section("Labels", ...labels(d.labels || {})),
    d.claims?.length && section("Claims", pairs(d.claims.map((c) => [c.name, c.value]))),
    d.resources?.length && section("Resources", make("p", "quiet", "The bar is what Placements request, of what can be allocated."), ...d.resources.map(resource)),
    d.version && section("Kubernetes", make("p", "", d.version)),
    !d.note && section("ManagedCluster", yamlOf("ManagedCluster", d.name)),
  ];
}

/** said is what matters most. @param {ClusterDetails} d */
function said(d) {
  const available = { True: "Available", False: "Not available", Unknown: "Not known whether it is available" }[d.available || ""] || "It does not say whether it is available";
  return available + (d.drained ? ", drained" : "") + (d.taints ? ", " + plural(d.taints, "taint") : "");
}

/** @param {Object<string, string>} all */
function labels(all) {
  const keys = Object.keys(all).sort();
  if (!keys.length) return [make("p", "quiet", "No labels.")];
  return [make("ul", "names", ...keys.map((key) => {
    const text = key + "=" + all[key];
    return make("li", "", filterLink(text, "label:" + text), " ", copyButton(text, text));
  }))];
}

/** @param {Resource} r */
function resource(r) {
  const allocatable = r.allocatable || r.capacity || "";
  const of = "requested " + (r.requested || "0") + " of " + (allocatable || "?") + (r.capacity && r.capacity !== allocatable ? ", capacity " + r.capacity : "");
  return measured(r.name, of, bar(amount(r.requested || "0") / (amount(allocatable) || 1)));
}

const UNITS = /** @type {Object<string, number>} */ ({
  n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
});

/** amount is the number of a quantity, such as 1500m or 2Gi. @param {string} quantity */
export function amount(quantity) {
  const match = /^([\d.eE+-]*?\d)([A-Za-z]*)$/.exec(quantity);
  return match ? Number(match[1]) * (UNITS[match[2]] ?? (match[2] ? NaN : 1)) || 0 : 0;
}
