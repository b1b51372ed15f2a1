// The overview, the first screen: what is wrong, what is moving, what has changed.
/** @import {ChangeRow, PlacementRow} from "./types.js" */
/** @import {Result} from "./filter.js" */
import { byId, link, make, plural, shorten, since, stateMark } from "./dom.js";
import { STATES } from "./states.js";
import { session } from "./api.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** Those in these states need somebody. The order is that of urgency. */
const NEEDY = Object.keys(STATES).filter((state) => STATES[state].severity !== "info");
const MOST_ROWS = 100, MOST_CHANGES = 15;

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
  const needy = shown.placements.filter((p) => NEEDY.includes(p.states[0])).sort(byUrgency);
  section.replaceChildren(
    summary(shown, needy), counts(shown.placements), clusterCounts(shown),
    ...(shown.placements.length ? [heading("Needs attention", needy.length), attention(needy, fresh)] : []),
    ...moving(shown.placements, fresh),
    heading("Newest changes", 0), changes(fleet.changes, shown, fresh),
  );
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
  const old = hub.state === "Lost" || store.lost;
  const partial = !store.world && (hub.problem || missing?.length);
  if (!placements.length) {
    const why = store.fleet?.placements.length ? "The filter leaves no Placements." : "There are no Placements yet. Create one with kubectl apply, and it appears here.";
    return make("p", "verdict", why);
  }
  const parts = [], of = [...(partial ? ["is known of the hub"] : []), ...(route.get().filter ? ["the filter leaves"] : [])];
  const before = old ? "When the hub was last read: " : of.length ? "Of what " + of.join(", and ") + ": " : "";
  if (needy.length) parts.push(needy.length.toLocaleString("en") + " of " + plural(placements.length, "Placement") + " need" + (needy.length === 1 ? "s" : "") + " attention");
  if (down) parts.push(down.toLocaleString("en") + " of " + plural(clusters.length, "cluster") + (down === 1 ? " is" : " are") + " not available");
  if (parts.length) return make("p", "verdict bad", before + parts.join("; ") + ".");
  return make("p", "verdict" + (partial ? "" : " good"), before + "nothing needs attention: ".replace(/^n/, before ? "n" : "N") + plural(placements.length, "Placement") + " on " + plural(clusters.length, "cluster") + (partial ? "." : ", and no problem is known."));
}

/** @param {PlacementRow[]} placements */
function counts(placements) {
  const tiles = Object.keys(STATES).map((state) => {
    const count = placements.filter((p) => p.states.includes(state)).length;
    if (!count && !ALWAYS.includes(state)) return null;
    return tile(count, stateMark(state), withFilter("state:" + state), "The Placement " + STATES[state].text + ". A Placement can have several states.", count ? "s-" + state : "");
  });
  const list = make("ul", "tiles", ...tiles.filter((one) => one !== null));
  list.setAttribute("aria-label", "Placements by state");
  return list;
}

/** @param {Result} shown */
function clusterCounts({ clusters }) {
  const list = make("ul", "tiles clusters",
    tile(clusters.length, plural(clusters.length, "cluster").replace(/^\S+ /, ""), withFilter("", { all: "1" }), "all clusters", ""),
    tile(clusters.filter((c) => c.available === "False").length, "unavailable", withFilter("available:false", { all: "1" }), "clusters whose availability is False", "s-short"),
    tile(clusters.filter((c) => c.available === "Unknown").length, "unknown", withFilter("available:unknown", { all: "1" }), "clusters that do not report", "s-stuck"),
    tile(clusters.filter((c) => c.drained).length, "drained", withFilter("drained:true", { all: "1" }), "clusters that are being emptied, or are empty", "s-frozen"),
    tile(clusters.filter((c) => c.taints && !c.drained).length, "tainted", withFilter("tainted:true", { all: "1" }), "clusters with another taint", "s-frozen"));
  list.setAttribute("aria-label", "Clusters");
  return list;
}

/**
 * withFilter is the matrix with one more term.
 * @param {string} term
 * @param {Partial<import("./route.js").Route>} [more]
 */
function withFilter(term, more) {
  const old = route.get().filter.split(/\s+/).filter((t) => t && t !== term);
  return route.href({ view: "matrix", filter: [...old, term].join(" ").trim(), ...more });
}

/**
 * @param {number} count
 * @param {Node|string} word
 * @param {string} href
 * @param {string} title
 * @param {string} className
 */
function tile(count, word, href, title, className) {
  const a = link(href, "tile" + (count ? " " + className : " zero"), make("b", "", count.toLocaleString("en")), make("span", "word", word));
  a.title = title;
  return make("li", "", a);
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
  const list = make("ul", "rows", ...needy.slice(0, MOST_ROWS).map((p) => placementRow(p, fresh)));
  if (needy.length > MOST_ROWS) {
    const href = withFilter("state:" + NEEDY.join(","));
    list.append(make("li", "", link(href, "more", "All " + needy.length.toLocaleString("en") + " in the matrix")));
  }
  return list;
}

/**
 * @param {PlacementRow[]} placements
 * @param {Set<string>} fresh
 */
function moving(placements, fresh) {
  const all = placements.filter((p) => p.states.includes("moving"));
  if (!all.length) return [];
  const list = make("ul", "rows", ...all.slice(0, MOST_ROWS).map((p) => placementRow(p, fresh, "moving")));
  if (all.length > MOST_ROWS) list.append(make("li", "", link(withFilter("state:moving"), "more", "All " + all.length + " in the matrix")));
  return [heading("Moving", all.length), list];
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
    stateMark(state), title,
    make("span", "number", p.selected + "/" + (p.wanted === null ? "all" : p.wanted)),
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
