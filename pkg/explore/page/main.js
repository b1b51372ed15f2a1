// The start of the page, and what joins its parts: the route says what is shown, the store what
// there is, and both are drawn together.
/** @import {Route} from "./route.js" */
/** @import {StoreEvent} from "./store.js" */
import { loadSession, session, setNamespace } from "./api.js";
import { drawBands } from "./bands.js";
import { showCell } from "./cell.js";
import { showCluster } from "./cluster.js";
import { drawClusters } from "./clusters.js";
import { drawControls, drawFilters, initControls } from "./controls.js";
import { byId, keepTimes, link, make, since, visible } from "./dom.js";
import { apply, parse, suggest } from "./filter.js";
import { follow, lose, stop } from "./live.js";
import { highlight, lay, refresh, select } from "./matrix.js";
import { drawOverview } from "./overview.js";
import { leave } from "./parts.js";
import { showPlacement } from "./placement.js";
import { loadResilience } from "./resilience.js";
import { MAIN, isDetails, route } from "./route.js";
import { store } from "./store.js";
import { timeBar } from "./time.js";
import { showWhatIf } from "./whatif.js";

/** FRESH is how long a change is highlighted. */
const FRESH = 2500;

const input = /** @type {HTMLInputElement} */ (byId("filter"));
const panel = byId("details");
const keys = /** @type {HTMLDialogElement} */ (byId("keys"));
/** @type {import("./filter.js").Result} */
let shown = { placements: [], clusters: [], problems: [] };
/** @type {Set<string>} */
let fresh = new Set();
let freshUntil = 0, details = "", seen = "";

/** filtered applies the filter to the fleet. */
function filtered() {
  shown = apply(parse(route.get().filter), store.fleet?.placements || [], store.fleet?.clusters || []);
  if (!store.fleet || store.unread()) shown.problems = [];
}

/** drawMain draws what is beside the details. */
function drawMain() {
  const view = route.main();
  for (const one of MAIN) byId(one).hidden = one !== view;
  document.body.dataset.view = view;
  drawFilters();
  if (view === "overview") drawOverview(shown, fresh);
  else if (view === "clusters") drawClusters(shown.clusters);
  else drawControls(shown, lay(shown));
  const { placement, cluster } = route.get();
  if (view === "matrix") select(placement, cluster);
  drawBands(shown.problems);
  drawHeader();
}

let due = 0;
/** redraw draws the main part again, at most once a frame. */
function redraw() {
  if (due) return;
  due = requestAnimationFrame(() => {
    due = 0;
    filtered();
    drawMain();
  });
}

function drawHeader() {
  const now = route.get(), main = route.main();
  const views = /** @type {[Partial<Route>, string, boolean][]} */ ([
    [{ view: "overview" }, "Overview", main === "overview" && now.view !== "whatif"], [{ view: "matrix" }, "Matrix", main === "matrix" && now.view !== "whatif"],
    [{ view: "clusters" }, "Clusters", main === "clusters" && now.view !== "whatif"],
    [{ view: "whatif" }, "What if…", now.view === "whatif"],
  ]);
  byId("views").replaceChildren(...views.map(([changes, text, here]) => {
    const a = link(route.href(changes), "", text);
    if (here) a.setAttribute("aria-current", "page");
    return a;
  }));
  /** @type {HTMLAnchorElement} */ (byId("home")).href = route.href({ view: "overview", filter: "", world: "" });
  if (document.activeElement !== input && input.value !== now.filter) input.value = now.filter;
  drawStatus();
  const name = now.view === "placement" ? now.placement : now.view === "cluster" ? now.cluster : now.view === "cell" ? now.cluster + " for " + now.placement : "";
  const hub = [session.context, session.hub?.replace(/^https?:\/\//, "") || (!session.live && session.recording && "a recording"), session.user].filter(Boolean);
  const where = byId("where");
  where.textContent = visible(hub.join(" · "));
  where.title = visible(["context: " + (session.context || "none"), "hub: " + (session.hub || "none, only a recording"), "user: " + (session.user || "not known")].join("\n"));
  document.title = [name, main.charAt(0).toUpperCase() + main.slice(1), ...hub, "Berth"].filter(Boolean).join(" · ");
}

let status = "";
/** drawStatus says how old what is shown is. */
function drawStatus() {
  const { fleet, changed, world, lost, loading } = store;
  const key = [!fleet, world, changed, Boolean(lost), store.error, loading, fleet?.hub.state, session.user].join();
  if (status === key) return;
  status = key;
  const box = byId("status");
  if (!fleet && store.error) box.replaceChildren(make("span", "dot lost"), "not connected");
  else if (!fleet || (loading && !fleet.placements.length)) box.replaceChildren("Reading the hub…");
  else if (world) box.replaceChildren(make("span", "", loading ? "Reading…" : "not live"));
  else if (lost || fleet.hub.state === "Lost") box.replaceChildren(make("span", "dot lost"), "not connected");
  else {
    const at = new Date(changed || fleet.at).toISOString();
    box.replaceChildren(make("span", "dot"), changed ? "changed " : "read ", since(at));
  }
  // A time that ticks must not be read aloud each second.
  box.setAttribute("aria-live", "off");
}

/** drawDetails shows the details that the route names. again is true if only their object has changed. */
function drawDetails(again = false) {
  const { view, placement, cluster, world, ns } = route.get();
  const open = isDetails(view);
  byId("side").hidden = !open;
  if (!open) {
    details = "";
    leave(panel, "");
    panel.replaceChildren();
    return;
  }
  const key = [view, placement, cluster, world, ns].join(" ");
  if (key === details && !again) return;
  const changed = key !== details;
  details = key;
  if (store.world !== world || !store.fleet) {
    // Opening the world draws them.
    details = "";
    return;
  }
  if (changed) panel.scrollTop = 0;
  const gone = store.unread() ? "" : (view === "placement" || view === "cell") && !store.placement(placement) ? "Placement " + placement
    : (view === "cluster" || view === "cell") && !store.cluster(cluster) ? "cluster " + cluster : "";
  if (gone) {
    showGone(gone, seen === key);
    return;
  }
  seen = key;
  if (view === "placement") showPlacement(panel, placement);
  else if (view === "cluster") showCluster(panel, cluster);
  else if (view === "cell") showCell(panel, placement, cluster);
  else if (view === "whatif") showWhatIf(panel);
}

/**
 * showGone says that an object is not there.
 * @param {string} what
 * @param {boolean} deleted
 */
function showGone(what, deleted) {
  leave(panel, "");
  panel.replaceChildren(
    make("h2", "", what.slice(what.indexOf(" ") + 1)),
    make("p", "verdict bad", deleted ? "This " + what.split(" ")[0] + " was deleted." : "There is no " + what + (store.world ? " in this state." : ", or no longer.")),
    make("p", "", link(route.href({ view: "overview" }), "", "Back to the overview")));
}

/** isShown is true if an event concerns the details that are open. @param {StoreEvent} event */
function isShown(event) {
  const { view, placement, cluster } = route.get();
  if (event.all) return true;
  if (view === "placement" || view === "cell") {
    if (event.changedPlacements?.has(placement)) return true;
  }
  return (view === "cluster" || view === "cell") && Boolean(event.changedClusters?.has(cluster));
}

/** @param {StoreEvent} event */
function onStore(event) {
  if (event.fleet) {
    document.body.dataset.loaded = store.fleet?.at || "";
    filtered();
    drawMain();
    drawDetails(true);
    return;
  }
  if (event.changedPlacements?.size) {
    if (Date.now() > freshUntil) fresh = new Set();
    freshUntil = Date.now() + FRESH;
    for (const placement of event.changedPlacements) fresh.add(placement);
    highlight(fresh);
    setTimeout(() => {
      if (Date.now() < freshUntil) return;
      fresh = new Set();
      highlight(fresh);
    }, FRESH + 50);
  }
  if (event.changedPlacements || event.clusters) redraw();
  else if (event.columns) route.get().sort === "score" ? redraw() : refresh();
  if (event.connection) {
    if (drawBands(shown.problems)) redraw();
    drawStatus();
  }
  if (isShown(event)) drawDetails(true);
}

/** openWorld reads another world, and follows its changes if it has any. */
async function openWorld() {
  stop();
  // With a recording only, there is no now: the time bar opens the newest state that it has.
  if (!session.live && !route.get().world) return;
  await store.open(route.get().world);
  if (store.loading) return;
  if (store.error && route.get().world === "") lose(store.error);
  else if (store.world === route.get().world) follow();
}

/**
 * @param {Route} now
 * @param {Route} before
 */
function onRoute(now, before) {
  if (now.ns !== before.ns || now.world !== before.world) {
    setNamespace(now.ns);
    openWorld();
  }
  filtered();
  drawMain();
  drawDetails();
  const opened = isDetails(now.view) && !isDetails(before.view);
  if (opened && document.activeElement?.id !== "grid") panel.focus({ preventScroll: true });
}

/** @param {string} text */
function typed(text) {
  route.replace({ filter: text });
  const options = suggest(text, store.fleet?.placements || [], store.fleet?.clusters || []);
  byId("suggestions").replaceChildren(...options.filter((o) => o !== text).map((value) => {
    const option = make("option", "");
    option.value = value;
    return option;
  }));
}

/** close closes the details. The focus returns to what opened them. */
function close() {
  const { view, placement } = route.get();
  const opener = view === "placement" ? route.href({ view, placement }) : "";
  route.go({ view: route.main() });
  if (route.main() === "matrix") byId("grid").focus();
  else (/** @type {HTMLElement|null} */ (byId("overview").querySelector('a[href="' + CSS.escape(opener) + '"]')) || byId("overview")).focus();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.closest("input, textarea, select, dialog") !== null;
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    input.focus();
    input.select();
    event.preventDefault();
  } else if (event.key === "?" && !typing) keys.showModal();
  else if (event.key === "Escape" && target === input) {
    input.value = "";
    typed("");
  } else if (event.key === "Escape" && !typing && isDetails(route.get().view)) close();
}

async function start() {
  initControls();
  keepTimes();
  route.on(onRoute);
  store.on(onStore);
  addEventListener("keydown", onKey);
  input.value = route.get().filter;
  input.addEventListener("input", () => typed(input.value));
  input.addEventListener("focus", () => typed(input.value));
  byId("close").addEventListener("click", close);
  byId("help").addEventListener("click", () => keys.showModal());
  setNamespace(route.get().ns);
  drawHeader();
  try {
    await loadSession();
  } catch (error) {
    store.error = /** @type {Error} */ (error).message;
  }
  if (session.recording) byId("time").append(timeBar());
  drawMain();
  await openWorld();
  loadResilience(refresh);
}

start();
