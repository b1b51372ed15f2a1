// The details of a Placement: what it wants, what it has, and what happens to it.
/** @import {Content} from "./dom.js" */
/** @import {ChangeRow, Group, Event as HubEvent, Pending, PlacementDetails, Policy, ReasonCount, Resilience} from "./types.js" */
import { actionButtons } from "./actions.js";
import { get, session } from "./api.js";
import { make, plural, since, stateMark, table, visible } from "./dom.js";
import { bar, cellLink, conditionList, copied, cutList, filterLink, folded, measured, pairs, section, show } from "./parts.js";
import { store } from "./store.js";
import { whatIfLink } from "./whatif.js";
import { yamlOf } from "./yaml.js";

/** RECORDS is how many records of the history are shown. */
const RECORDS = 20;
/** POLL is the time between two questions for the resilience, which is computed in the background. */
const POLL = 500;

/**
 * @param {HTMLElement} panel
 * @param {string} name
 */
export function showPlacement(panel, name) {
  const ask = async () => {
    const question = /** @type {Promise<PlacementDetails>} */ (get("api/placement", { placement: name, world: store.world }));
    const survey = session.resilience && !store.world ? get("api/resilience") : Promise.resolve(null);
    const [details, resilience] = await Promise.allSettled([question, survey]);
    if (details.status === "rejected") throw details.reason;
    return { d: details.value, resilience: resilience.status === "fulfilled" ? resilience.value : { done: true, error: String(resilience.reason?.message) } };
  };
  return show(panel, ["placement", name, store.world].join(" "), [copied(make("span", "", name), name)], ask, ({ d, resilience }) => tell(d, resilience));
}

/**
 * @param {PlacementDetails} d
 * @param {Resilience|null} resilience
 * @returns {Content[]}
 */
function tell(d, resilience) {
  const wanted = d.wanted;
  return [
    make("p", "states", ...d.states.map(stateMark), since(d.since)),
    make("p", "verdict", wanted === null ? "It has " + plural(d.selected, "cluster") + " and wants all that qualify." : "It has " + plural(d.selected, "cluster") + " and wants " + wanted.toLocaleString("en") + "."),
    wanted ? bar(d.selected / wanted, d.selected < wanted ? "short" : "") : null,
    d.message && d.message !== (d.pending?.message || d.change?.message) && make("p", "", d.message),
    actionButtons(d.actions || [], { placement: d.placement }),
    make("p", "", whatIfLink([{ kind: "number", placement: d.placement, number: wanted }], "What if it wanted another number…")),
    ...openChange(d),
    section("Conditions", d.conditions?.length ? conditionList(d.conditions) : make("p", "quiet", "The controller has not written any.")),
    ...(d.intents || []).map((intent) => make("p", "hint", intent.note)),
    chosen(d.placement, d.groups || []),
    candidates(d.counts || [], d.note),
    resilience && section("Resilience by " + (resilience.by || session.resilience), survival(resilience, d.placement)),
    history(d.history || [], Boolean(d.change)),
    events(d.events || [], d.eventsNote),
    d.policies?.length && section("Policies", ...d.policies.map(policy)),
    section("Placement", d.sets?.length ? make("p", "", "It may select from ", ...d.sets.flatMap((set, i) => [i ? ", " : "", filterLink(set, "set:" + set)]), ".") : null,
      make("p", "quiet", "Generation " + d.generation), yamlOf("Placement", d.placement),
      d.labels && Object.keys(d.labels).length ? pairs(Object.entries(d.labels).sort()) : null),
  ];
}

/** openChange is the change that is not published, or not in full. @param {PlacementDetails} d @returns {Content[]} */
function openChange(d) {
  const { change, pending } = d;
  if (!change && !pending) return [];
  const waits = pending?.message || change?.message || "";
  return [section(change ? "Open change " + change.revision + ", " + change.phase.toLowerCase() : "A change that is not published",
    waits && make("p", "waits-for", (pending && pending.reason !== "Progressing" ? pending.reason + ": " : "") + waits),
    ...(change ? progress(change, pending) : []),
    change && make("p", "quiet", "Begun ", since(change.time), change.cause && ". Cause: " + change.cause),
    d.holds?.length && make("ul", "holds", ...d.holds.map((hold) => make("li", "", make("b", "", hold.plugin), ": " + hold.reason, hold.until && " Expires ", since(hold.until)))),
    pending && moved(d.placement, pending))];
}

/** progress shows what of a change is done. @param {ChangeRow} change @param {Pending} [pending] */
function progress(change, pending) {
  const inSteps = change.remainingAdded !== undefined || change.remainingRemoved !== undefined;
  /** @type {[string, number, number, string][]} */
  const parts = [["added", change.added, change.remainingAdded ?? 0, "+"], ["removed", change.removed, change.remainingRemoved ?? 0, "−"]];
  // As many as are named below: pages can have some of them already.
  if (!inSteps && pending) [parts[0][1], parts[1][1]] = [pending.added?.length || 0, pending.removed?.length || 0];
  return parts.filter(([, all]) => all > 0).map(([what, all, left, sign]) => {
    if (!inSteps) return make("p", what, sign + all.toLocaleString("en") + " to be " + what);
    const done = all - left;
    const whole = make("div", "bar", bar(done / all, what).firstElementChild);
    whole.setAttribute("role", "progressbar");
    whole.setAttribute("aria-valuemin", "0");
    whole.setAttribute("aria-valuemax", String(all));
    whole.setAttribute("aria-valuenow", String(done));
    whole.setAttribute("aria-label", "Clusters " + what);
    return measured(sign + " " + what, done.toLocaleString("en") + " of " + all.toLocaleString("en"), whole);
  });
}

/**
 * moved lists the clusters of a change that is not published in full.
 * @param {string} placement
 * @param {Pending} pending
 */
function moved(placement, pending) {
  const states = new Map((pending.moving || []).map((m) => [m.cluster, m.state]));
  /** @param {string} sign @param {string} className @param {string[]} names */
  const list = (sign, className, names) => names.length && cutList(names,
    (name) => make("span", "", make("span", className, sign + " "), cellLink(placement, name, name), stateOf(states.get(name))), "clusters " + className);
  return make("div", "", list("+", "added", pending.added || []), list("−", "removed", pending.removed || []));
}

/** stateOf says the first part of the state of a cluster in a change: the rest is in the message of the change. @param {string|undefined} state */
function stateOf(state) {
  if (!state) return null;
  const e = make("span", "quiet", ": " + state.split(";")[0]);
  e.title = visible(state);
  return e;
}

/**
 * chosen lists the published clusters by group and page.
 * @param {string} placement
 * @param {Group[]} groups
 */
function chosen(placement, groups) {
  const lacks = store.lacks("placementdecisions");
  if (!groups.length) return section("Clusters", lacks ? make("p", "waits-for", "They are not known: you do not have the permission to " + lacks + ".") : make("p", "quiet", "No decision is published."));
  const single = groups.length === 1 && !groups[0].name;
  return section("Clusters", ...groups.flatMap((group) => [
    single ? null : make("h4", "", "Group " + (group.name || "without a name") + ", index " + group.index),
    ...(group.pages || []).map((page) => {
      const clusters = page.clusters || [];
      return make("div", "page", make("p", "quiet", copied(make("span", "", page.name), page.name), ": " + plural(clusters.length, "cluster") + (page.revision ? ", revision " + page.revision : "")),
        cutList(clusters, (name) => cellLink(placement, name, name), "clusters of " + page.name),
        yamlOf("PlacementDecision", placement.split("/")[0] + "/" + page.name));
    }),
  ]));
}

/**
 * candidates counts the clusters of its sets by result.
 * @param {ReasonCount[]} counts
 * @param {string} [note]
 */
function candidates(counts, note) {
  const all = counts.reduce((sum, c) => sum + c.count, 0);
  const shown = counts.map((c) => measured(c.text, c.count.toLocaleString("en"), bar(c.count / Math.max(1, all), c.text === "selected" ? "" : "other")));
  return section(all ? plural(all, "candidate") + " by result" : "Candidates", note && make("p", "waits-for", note), ...shown,
    !all && !note && make("p", "quiet", "No cluster is in the sets that it may select from."));
}

/**
 * survival says which domains a Placement can lose, once that is known.
 * @param {Resilience} first
 * @param {string} placement
 */
function survival(first, placement) {
  const text = make("p", "");
  /** @param {Resilience} r */
  const tell = (r) => {
    text.textContent = visible(!r.done ? "Still deciding without each domain…" : r.error || r.placements?.[placement]?.message || "Not known.");
    if (!r.done) setTimeout(again, POLL);
  };
  const again = async () => {
    if (!text.isConnected) return;
    try {
      tell(await get("api/resilience"));
    } catch (error) {
      tell({ by: "", done: true, error: /** @type {Error} */ (error).message });
    }
  };
  tell(first);
  return text;
}

/** @param {ChangeRow[]} records @param {boolean} open is true if the first one is open: its message is said above */
function history(records, open) {
  if (!records.length) return section("History", make("p", "quiet", "No change is recorded."));
  const rows = records.slice(0, RECORDS).map((r, i) => {
    const message = open && i === 0 ? "" : r.message;
    return [
      make("span", "", String(r.revision)),
      make("span", "", r.phase, " ", since(r.time), r.cause && make("div", "quiet", r.cause), message && make("div", "quiet", message)),
      make("span", "added", "+" + r.added.toLocaleString("en")), make("span", "removed", "−" + r.removed.toLocaleString("en")),
    ];
  });
  return section("History", table(["Revision", "Phase and cause", "Added", "Removed"], rows),
    records.length > rows.length && make("p", "quiet", "And " + (records.length - rows.length) + " older ones."));
}

/**
 * @param {HubEvent[]} all
 * @param {string} [note]
 */
function events(all, note) {
  if (!all.length) return section("Events", make("p", note ? "waits-for" : "quiet", note || (store.world ? "Events are shown of now only." : "The hub has none.")));
  const rows = all.map((e) => [since(e.time), make("span", e.type === "Warning" ? "bad" : "", e.reason), e.note + (e.count && e.count > 1 ? " (" + e.count + " times)" : "")]);
  return section("Events", note && make("p", "waits-for", note), table(["Last", "Reason", "Text"], rows));
}

/** @param {Policy} p */
function policy(p) {
  return make("div", "", make("p", "", p.kind + " ", copied(make("b", "", p.name), p.name)), p.conditions?.length && conditionList(p.conditions), folded("The spec of " + p.name, p.spec));
}
