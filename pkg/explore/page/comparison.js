// What a change does to the Placements of the fleet, as a table: for what-ifs and for actions.
/** @import {Content} from "./dom.js" */
/** @import {Change, Comparison, ConditionChange} from "./types.js" */
import { make, plural, table } from "./dom.js";
import { placementLink } from "./parts.js";

/** MOST is how many rows a table has. */
const MOST = 200;
/** NAMED is how many clusters a row names. */
const NAMED = 100;

/**
 * comparisonTable shows the Placements that move most first.
 * @param {Comparison} c
 * @returns {HTMLElement}
 */
export function comparisonTable(c) {
  const changes = [...(c.changes || [])].sort((a, b) => moves(b) - moves(a) || (a.placement < b.placement ? -1 : 1));
  if (!changes.length) return make("p", "verdict", "No decision changes. " + plural(c.summary.placements, "Placement") + (c.summary.placements === 1 ? " was" : " were") + " decided without and with it.");
  const rows = changes.slice(0, MOST).map((change) => [
    make("span", "", placementLink(change.placement), ...operation(change), ...(change.conditions || []).filter(telling).map(condition)),
    change.before.toLocaleString("en") + (change.published === change.before ? "" : " (" + change.published.toLocaleString("en") + " published)"), change.after.toLocaleString("en"), names("+", "added", change.added || []), names("−", "removed", change.removed || []),
  ]);
  const { added, removed, changed } = c.summary;
  return make("div", "comparison",
    make("p", "verdict", plural(changed, "Placement") + (changed === 1 ? " changes: " : " change: ") + plural(added, "cluster") + " added, " + removed.toLocaleString("en") + " removed."),
    table(["Placement", "Before", "After", "Added", "Removed"], rows),
    changes.length > MOST && make("p", "quiet", "And " + plural(changes.length - MOST, "other") + ", which move less."));
}

/** @param {Change} change */
const moves = (change) => (change.added?.length || 0) + (change.removed?.length || 0);

/** @param {Change} change @returns {Content[]} */
function operation(change) {
  return [
    change.operation !== "Updated" && make("div", "quiet", change.operation.toLowerCase()),
    change.needsApproval && make("div", "waits", "It would wait for an approval."),
  ];
}

/**
 * names counts clusters, and lists them once opened.
 * @param {string} sign
 * @param {string} className
 * @param {string[]} all
 */
function names(sign, className, all) {
  const count = make("span", className, sign + all.length.toLocaleString("en"));
  if (!all.length) return make("span", "quiet", "0");
  const more = all.length > NAMED ? ", and " + (all.length - NAMED).toLocaleString("en") + " more" : "";
  return make("details", "clusters", make("summary", "", count), all.slice(0, NAMED).join(", ") + more);
}

/** telling is true if a condition differs in more than its message. @param {ConditionChange} c */
const telling = (c) => c.before?.status !== c.after?.status || c.before?.reason !== c.after?.reason;

/** @param {ConditionChange} c */
function condition(c) {
  const after = c.after?.status;
  if (c.type === "PlacementSatisfied" && c.before?.status !== after) return make("div", after === "True" ? "good" : "bad", after === "True" ? "becomes satisfied" : "no longer satisfied");
  if (c.type === "PlacementMisconfigured") return make("div", after === "True" ? "bad" : "good", after === "True" ? "becomes misconfigured" : "no longer misconfigured");
  /** @param {ConditionChange["before"]} side */
  const said = (side) => (side ? side.status + (side.reason ? " " + side.reason : "") : "not set");
  return make("div", "quiet", c.type + ": " + said(c.before) + " → " + said(c.after));
}

/**
 * shortAfter are the Placements that have fewer clusters than they want after the change, and did not before.
 * @param {Comparison} c
 */
function shortAfter(c) {
  return (c.changes || []).flatMap((change) => {
    const satisfied = change.conditions?.find((one) => one.type === "PlacementSatisfied");
    if (satisfied?.after?.status !== "False" || satisfied.before?.status === "False" || satisfied.after.reason === "Misconfigured") return [];
    return [{ placement: change.placement, message: satisfied.after.message }];
  });
}

/**
 * consequences are what is wrong after the change.
 * @param {Comparison} c
 * @returns {Content[]}
 */
export function consequences(c) {
  const short = shortAfter(c), misconfigured = c.misconfigured || [], old = c.outOfDate || [];
  /** @param {{placement: string, message: string}} one */
  const item = (one) => make("li", "", placementLink(one.placement), ": " + one.message);
  return [
    short.length > 0 && make("p", "bad", plural(short.length, "Placement") + " would have fewer clusters than wanted:"),
    short.length > 0 && make("ul", "names", ...short.slice(0, MOST).map(item)),
    misconfigured.length > 0 && make("p", "bad", plural(misconfigured.length, "Placement") + " would be misconfigured:"),
    misconfigured.length > 0 && make("ul", "names", ...misconfigured.slice(0, MOST).map((one) => item({ ...one, message: one.message + (one.before ? " (as it is now)" : "") }))),
    old.length > 0 && make("p", "quiet", plural(old.length, "Placement") + " would change also without this: a change is held or in progress, or decisions elsewhere have changed."),
    ...(c.notes || []).map((note) => make("p", "quiet", note)),
  ];
}
