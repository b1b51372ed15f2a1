// Why one cluster was, or was not, selected for one Placement.
/** @import {Content} from "./dom.js" */
/** @import {Cell, Spread, ClusterVerdict} from "./types.js" */
import { actionButtons } from "./actions.js";
import { get } from "./api.js";
import { make, plural } from "./dom.js";
import { bar, clusterLink, copied, measured, placementLink, section, show } from "./parts.js";
import { store } from "./store.js";

/**
 * @param {HTMLElement} panel
 * @param {string} placement
 * @param {string} cluster
 */
export function showCell(panel, placement, cluster) {
  const title = [copied(clusterLink(cluster), cluster), " for ", copied(placementLink(placement), placement)];
  const ask = () => /** @type {Promise<Cell>} */ (get("api/cell", { placement, cluster, world: store.world }));
  return show(panel, ["cell", placement, cluster, store.world].join(" "), title, ask, tell);
}

/** @param {Cell} cell @returns {Content[]} */
function tell(cell) {
  const v = cell.verdict;
  return [
    make("p", "verdict", v ? verdict(v) : cell.note),
    v?.reason && make("p", "", v.reason),
    !store.lacks("placementdecisions") && make("p", "quiet", cell.published ? "The published decision has the cluster." : "The published decision does not have the cluster."),
    cell.pending && make("p", "waits-for", "A change of this is not published: " + cell.pending),
    v && cell.note && make("p", "quiet", cell.note),
    v?.selectedWith && make("p", "hint", "Would be selected with: " + v.selectedWith),
    v?.score !== undefined && section("Score " + v.score.toLocaleString("en"),
      ...scoreBars(v, cell.weights || {}), v.distance !== undefined && make("p", "", distance(v.selected, v.distance)),
      v.rank ? make("p", "quiet", "Rank " + v.rank.toLocaleString("en") + " of the clusters that fit.") : null),
    ...(cell.spread || []).map(spread),
    actionButtons(cell.actions || [], { placement: cell.placement, cluster: cell.cluster }),
  ];
}

/** @param {ClusterVerdict} v */
function verdict(v) {
  if (v.plugin) return "Not selected: excluded by " + v.plugin;
  return v.selected ? "Selected" : "Not selected, though it fits";
}

/**
 * @param {boolean} selected
 * @param {number} by
 */
function distance(selected, by) {
  const other = selected ? "the best cluster that was left out" : "the last cluster that was selected";
  if (by === 0) return "As much as " + other;
  return Math.abs(by).toLocaleString("en") + (by > 0 ? " more than " : " less than ") + other;
}

/**
 * scoreBars has a bar for each prioritizer; the longest is the one that counts most.
 * @param {ClusterVerdict} v
 * @param {Object<string, number>} weights
 */
function scoreBars(v, weights) {
  const scores = v.scores || {};
  const parts = Object.keys(scores).sort().map((plugin) => ({ plugin, score: scores[plugin], weight: weights[plugin] || 0 }));
  const scale = Math.max(1, ...parts.map((p) => Math.abs(p.score * p.weight)));
  const signed = parts.some((p) => p.score * p.weight < 0);
  return parts.map(({ plugin, score, weight }) => {
    const part = score * weight;
    const fill = make("div", part < 0 ? "fill negative" : "fill");
    const width = (Math.abs(part) / scale) * (signed ? 50 : 100);
    fill.style.width = width + "%";
    fill.style.left = (signed ? 50 : 0) - (part < 0 ? width : 0) + "%";
    const whole = make("div", "bar", fill);
    whole.setAttribute("aria-hidden", "true");
    return measured(plugin, v.unscored?.[plugin] || score + " × " + weight + " = " + part, whole);
  });
}

/** spread shows how the selected clusters are spread over the domains of a constraint. @param {Spread} s */
function spread(s) {
  const domains = s.domains || [];
  const most = Math.max(1, ...domains.map((d) => d.selected));
  return section("Spread over " + s.constraint, make("p", "quiet", "Clusters that are selected, of all candidates, in each of " + plural(domains.length, "domain") + "."), ...domains.map((d) => {
    const mine = d.domain === (s.mine || "");
    const name = d.domain || "(no value)";
    const line = measured(mine ? name + ", this cluster's" : name, d.selected.toLocaleString("en") + " of " + d.candidates.toLocaleString("en"), bar(d.selected / most, mine ? "" : "other"));
    line.classList.toggle("mine", mine);
    return line;
  }));
}
