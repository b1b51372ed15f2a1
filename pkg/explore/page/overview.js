// The overview, the first screen: what is wrong, what is moving, what has changed.
/** @import {ChangeRow, PlacementRow} from "./types.js" */
/** @import {Result} from "./filter.js" */
import { byId, link, make, plural, shorten, since, stateMark } from "./dom.js";
import { withTerm } from "./filter.js";
import { regionKey } from "./layout.js";
import { STATES } from "./states.js";
import { session } from "./api.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** MOST_REGIONS is how many regions are named. */
const MOST_REGIONS = 24;
/** Those in these states need somebody. The order is that of urgency. */
const NEEDY = Object.keys(STATES).filter((state) => STATES[state].severity !== "info");
const MOST_ROWS = 100, MOST_CHANGES = 15;
/** So many Placements with the same states and cause are one row, which opens. */
const GROUPED = 2;

/** Those are counted also if no Placement is in them. */
const ALWAYS = [...NEEDY, "moving", "satisfied"];

/**
 * drawOverview draws it anew. fresh are the Placements that have just changed.
 * @param {Result} shown
 * @param {Set<string>} fresh
 */
export function drawOverview(shown, fresh) {
  const section = byId("overview");
  const fleet = store.fleet;
  const unread = store.unread();
  if (!fleet || unread) {
    section.replaceChildren(make("p", "verdict", unread));
    return;
  }
  const focused = section.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
  const open = new Set([...section.querySelectorAll("details[open]")].map((e) => /** @type {HTMLElement} */ (e).dataset.key));
  const needy = shown.placements.filter((p) => NEEDY.includes(p.states[0])).sort(byUrgency);
  section.replaceChildren(
    summary(shown, needy), ...(store.lacks("placements") ? [] : [counts(shown.placements)]), clusterCounts(shown), ...regions(shown),
    ...(shown.placements.length ? [heading("Needs attention", needy.length), attention(needy, fresh)] : []),
    ...moving(shown.placements, fresh),
    heading("Newest changes", 0), changes(fleet.changes, shown, fresh),
  );
  for (const e of section.querySelectorAll("details")) e.open = open.has(e.dataset.key);
  for (const a of focused ? section.querySelectorAll("a") : []) {
    if (a.getAttribute("href") === focused) {
      a.focus({ preventScroll: true });
      break;
    }
  }
}

/**
 * @param {string} text
 * @param {number} count
 */
function heading(text, count) {
  return make("h2", "", text + (count ? ": " + count.toLocaleString("en") : ""));
}

/**
 * summary says in one sentence what matters.
 * @param {Result} shown
 * @param {PlacementRow[]} needy
 */
function summary(shown, needy) {
  const { placements, clusters } = shown;
  const down = clusters.filter((c) => c.available !== "True" && c.available).length;
  const { hub, missing } = /** @type {import("./types.js").Fleet} */ (store.fleet);
  const old = store.isOld();
  const partial = !store.world && (hub.problem || missing?.length);
  if (!placements.length) return make("p", "verdict", store.none("Placement"));
  const parts = [], of = [...(partial ? ["is known of the hub"] : []), ...(route.get().filter ? ["the filter leaves"] : [])];
  const before = old ? "When the hub was last read: " : of.length ? "Of what " + of.join(", and ") + ": " : "";
  if (needy.length) parts.push(needy.length.toLocaleString("en") + " of " + plural(placements.length, "Placement") + " need" + (needy.length === 1 ? "s" : "") + " attention");
  if (down) parts.push(down.toLocaleString("en") + " of " + plural(clusters.length, "cluster") + (down === 1 ? " is" : " are") + " not available");
  if (parts.length) return make("p", "verdict bad", before + parts.join("; ") + ".");
  if (old) return make("p", "verdict", "When the hub was last read, nothing needed attention. Whether that is so now is not known.");
  if (store.world) return make("p", "verdict", "In this state nothing needs attention: " + plural(placements.length, "Placement") + " on " + plural(clusters.length, "cluster") + ".");
  return make("p", "verdict" + (partial ? "" : " good"), before + "nothing needs attention: ".replace(/^n/, before ? "n" : "N") + plural(placements.length, "Placement") + " on " + plural(clusters.length, "cluster") + (partial ? "." : ", and no problem is known."));
}

/** @param {PlacementRow[]} placements */
function counts(placements) {
  const tiles = Object.keys(STATES).map((state) => {
    const count = placements.filter((p) => p.states.includes(state)).length;
    if (!count && !ALWAYS.includes(state)) return null;
    return tile(count, stateMark(state), withFilter("state:", state), "The Placement " + STATES[state].text + ". A Placement can have several states.", count ? "s-" + state : "");
  });
  const list = make("ul", "tiles", ...tiles.filter((one) => one !== null));
  list.setAttribute("aria-label", "Placements by state");
  return list;
}

/** @param {Result} shown */
function clusterCounts({ clusters }) {
  const lacks = store.lacks("managedclusters");
  if (lacks) return make("p", "waits-for", "The state of clusters is not known: you do not have the permission to " + lacks + ".");
  /** @param {number} count @param {string} word @param {string} start @param {string} value @param {string} title @param {string} className */
  const one = (count, word, start, value, title, className) => tile(count, word, withFilter(start, value, { view: "clusters" }), title, className);
  const list = make("ul", "tiles clusters",
    one(clusters.length, plural(clusters.length, "cluster").replace(/^\S+ /, ""), "available:", "", "all clusters", ""),
    one(clusters.filter((c) => c.available === "False").length, "unavailable", "available:", "false", "clusters whose availability is False", "s-short"),
    one(clusters.filter((c) => c.available === "Unknown").length, "unknown", "available:", "unknown", "clusters that do not report any more", "s-stuck"),
    one(clusters.filter((c) => c.drained).length, "drained", "drained:", "true", "clusters that are being emptied, or are empty", "s-frozen"),
    one(clusters.filter((c) => c.taints && !c.drained).length, "tainted", "tainted:", "true", "clusters with another taint", "s-frozen"));
  list.setAttribute("aria-label", "Clusters");
  return list;
}

/**
 * regions says how many clusters of each region are not available, the worst first.
 * @param {Result} shown
 */
function regions({ clusters }) {
  const key = regionKey(clusters);
  if (!key) return [];
  /** @type {Map<string, {all: number, down: number}>} */
  const by = new Map();
  for (const c of clusters) {
    const name = c.labels?.[key] || "", region = by.get(name) || { all: 0, down: 0 };
    region.all++;
    if (c.available === "False" || c.available === "Unknown") region.down++;
    by.set(name, region);
  }
  const rows = [...by].sort(([a, x], [b, y]) => y.down / y.all - x.down / x.all || Number(!a) - Number(!b) || (a < b ? -1 : 1));
  const list = make("ul", "regions", ...rows.slice(0, MOST_REGIONS).map(([name, { all, down }]) => {
    const text = down ? down.toLocaleString("en") + " of " + plural(all, "cluster") + " not available" : plural(all, "cluster");
    const content = [make("b", "", name || "without " + key), " ", make("span", down ? "bad" : "quiet", text)];
    return make("li", "", name ? link(withFilter("label:" + key + "=", name, { view: "clusters" }), "", ...content) : make("span", "", ...content));
  }));
  if (rows.length > MOST_REGIONS) list.append(make("li", "quiet", "and " + (rows.length - MOST_REGIONS) + " others"));
  list.setAttribute("aria-label", "Clusters by " + key);
  return [list];
}

/**
 * withFilter is a view with one term of another value.
 * @param {string} start
 * @param {string} value
 * @param {Partial<import("./route.js").Route>} [more]
 */
function withFilter(start, value, more) {
  return route.href({ view: "matrix", filter: withTerm(route.get().filter, start, value), ...more });
}

/**
 * @param {number} count
 * @param {Node|string} word
 * @param {string} href
 * @param {string} title
 * @param {string} className
 */
function tile(count, word, href, title, className) {
  const content = [make("b", "", count.toLocaleString("en")), make("span", "word", word)];
  // Nothing is behind a zero.
  const e = count ? link(href, "tile " + className, ...content) : make("span", "tile zero", ...content);
  e.title = title;
  return make("li", "", e);
}

/**
 * @param {PlacementRow} a
 * @param {PlacementRow} b
 */
function byUrgency(a, b) {
  const order = NEEDY.indexOf(a.states[0]) - NEEDY.indexOf(b.states[0]);
  // Those without any cluster come first, then the newest.
  return order || Number(a.selected > 0) - Number(b.selected > 0) || (a.since === b.since ? 0 : (a.since || "") < (b.since || "") ? 1 : -1);
}

/**
 * @param {PlacementRow[]} needy
 * @param {Set<string>} fresh
 */
function attention(needy, fresh) {
  if (!needy.length) return make("p", "quiet", "Nothing: no Placement is " + NEEDY.slice(0, -1).join(", ") + " or " + NEEDY[NEEDY.length - 1] + ".");
  const groups = byCause(needy);
  const list = make("ul", "rows", ...groups.slice(0, MOST_ROWS).flatMap((group) => (group.length < GROUPED ? group.map((p) => placementRow(p, fresh)) : [groupRow(group, fresh)])));
  if (groups.length > MOST_ROWS) list.append(all(needy, NEEDY.join(",")));
  return list;
}

/**
 * all leads to the matrix with Placements of which not each has a row.
 * @param {PlacementRow[]} placements
 * @param {string} states
 */
function all(placements, states) {
  return make("li", "", link(withFilter("state:", states), "more", "All " + placements.length.toLocaleString("en") + " in the matrix"));
}

/**
 * byCause returns Placements with the same states and cause together. Numbers do not matter.
 * @param {PlacementRow[]} needy
 */
function byCause(needy) {
  /** @type {Map<string, PlacementRow[]>} */
  const groups = new Map();
  for (const p of needy) {
    const key = causeOf(p);
    const group = groups.get(key);
    if (group) group.push(p);
    else groups.set(key, [p]);
  }
  return [...groups.values()];
}

/** @param {PlacementRow} p */
const causeOf = (p) => p.states.join() + " " + (p.message ? p.message.replaceAll(p.placement, "").replace(/\d+/g, "#") : p.placement);

/**
 * @param {PlacementRow[]} group
 * @param {Set<string>} fresh
 */
function groupRow(group, fresh) {
  const [first] = group;
  const same = group.every((p) => p.message === first.message);
  const summary = make("summary", "line",
    make("span", "row-states", ...first.states.filter((s) => s !== "satisfied").map(stateMark)), make("span", "who", make("b", "", plural(group.length, "Placement")),
      make("span", "members quiet", group.slice(0, 3).map((p) => shorten(p.placement, 60)).join(", ") + (group.length > 3 ? ", …" : ""))), make("span", "number"),
    make("span", "why", (same ? "" : "Such as: ") + first.message),
    first.since ? since(first.since) : make("span", ""));
  const list = make("ul", "rows", ...group.slice(0, MOST_ROWS).map((p) => placementRow(p, fresh)));
  if (group.length > MOST_ROWS) list.append(all(group, first.states[0]));
  const details = make("details", "same", summary, list);
  details.dataset.key = causeOf(first);
  return make("li", "", details);
}

/**
 * @param {PlacementRow[]} placements
 * @param {Set<string>} fresh
 */
function moving(placements, fresh) {
  const some = placements.filter((p) => p.states.includes("moving"));
  if (!some.length) return [];
  const list = make("ul", "rows", ...some.slice(0, MOST_ROWS).map((p) => placementRow(p, fresh, "moving")));
  if (some.length > MOST_ROWS) list.append(all(some, "moving"));
  return [heading("Moving", some.length), list];
}

/**
 * @param {PlacementRow} p
 * @param {Set<string>} fresh
 * @param {string} [state]
 */
function placementRow(p, fresh, state = p.states[0]) {
  const [namespace, name] = split(p.placement);
  const message = state === p.states[0] ? p.message : p.change?.message;
  const title = make("span", "who", make("span", "quiet", shorten(namespace, 40) + "/"), make("b", "", shorten(name, 60)));
  title.title = p.placement;
  const a = link(route.href({ view: "placement", placement: p.placement }), "line" + (fresh.has(p.placement) ? " changed" : ""),
    make("span", "row-states", ...[state, ...p.states.filter((s) => s !== state && s !== "satisfied")].map(stateMark)), title,
    make("span", "number", p.selected + " of " + (p.wanted === null ? "all" : p.wanted)),
    make("span", "why", message || "", p.change && moved(p)),
    p.since && state === p.states[0] ? since(p.since) : p.change ? since(p.change.time) : make("span", ""));
  return make("li", "", a);
}

/** @param {PlacementRow} p */
function moved(p) {
  const change = /** @type {ChangeRow} */ (p.change);
  const what = p.states.includes("held") ? "held change" : p.states.includes("stuck") ? "stuck change" : p.states.includes("moving") ? "change in steps" : "open change";
  const left = (change.remainingAdded || 0) + (change.remainingRemoved || 0), all = change.added + change.removed;
  const done = change.remainingAdded === undefined && change.remainingRemoved === undefined ? "" : ", " + (all - left) + " of " + all + " done";
  return make("span", "moved", " " + what + " ", ...plusMinus(change), done);
}

/** @param {ChangeRow} change */
function plusMinus(change) {
  return [make("span", "added", "+" + change.added), " ", make("span", "removed", "−" + change.removed)];
}

/**
 * @param {ChangeRow[]} all
 * @param {Result} shown
 * @param {Set<string>} fresh
 */
function changes(all, shown, fresh) {
  const names = new Set(shown.placements.map((p) => p.placement));
  const some = all.filter((c) => names.has(c.placement) || (!route.get().filter && !store.placement(c.placement)));
  const lacks = store.lacks("placementchanges");
  if (lacks) return make("p", "waits-for", "Changes are not known: you do not have the permission to " + lacks + ".");
  if (!some.length) return make("p", "quiet", session.live ? "No changes are known." : "No changes were recorded by then.");
  const lines = some.map((c) => {
    const [namespace, name] = split(c.placement);
    const who = make("span", "who", make("span", "quiet", shorten(namespace, 40) + "/"), make("b", "", shorten(name, 60)));
    who.title = c.placement;
    const why = [c.cause, c.message].filter(Boolean).join(". ");
    return make("li", "", link(route.href({ view: "placement", placement: c.placement }), "line" + (fresh.has(c.placement) ? " changed" : ""),
      make("span", "phase", c.phase || "Published"), who, make("span", "number", ...plusMinus(c)), make("span", "why", why), since(c.time)));
  });
  const list = make("ul", "rows", ...lines.slice(0, MOST_CHANGES));
  if (lines.length > MOST_CHANGES) {
    const button = make("button", "more", "Show " + (lines.length - MOST_CHANGES) + " older ones");
    button.type = "button";
    button.addEventListener("click", () => {
      button.parentElement?.remove();
      list.append(...lines.slice(MOST_CHANGES));
      list.children[MOST_CHANGES].querySelector("a")?.focus();
    });
    list.append(make("li", "", button));
  }
  return list;
}

/** @param {string} placement */
function split(placement) {
  const slash = placement.indexOf("/");
  return [placement.slice(0, slash), placement.slice(slash + 1)];
}
