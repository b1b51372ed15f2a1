// The state that is shown: the fleet of a world, and the columns of the matrix that were read.
// live.js keeps it up to date.
/** @import {Fleet, Update, Columns, Scores} from "./types.js" */
import { get } from "./api.js";

/**
 * @typedef {object} StoreEvent
 * @property {boolean} [fleet] all is new
 * @property {boolean} [columns] cells have come
 * @property {boolean} [clusters] rows of clusters have changed
 * @property {boolean} [connection] loading, error or lost have changed
 * @property {boolean} [all] everything may have changed, and what failed can be asked again
 * @property {Set<string>} [changedPlacements] those whose row, or column, has changed
 * @property {Set<string>} [changedClusters]
 */

/** KEPT is the number of columns that are kept, BATCH that of one request. */
const KEPT = 300, BATCH = 60, WANTED = 180;
/** PAUSE is how long nothing is asked after an answer that could not be used. */
const PAUSE = 3000;

/**
 * known are the columns, by Placement. A stale one is shown until it has been read again.
 * @type {Map<string, {cells: string, note: string, stale: boolean, used: number}>}
 */
const known = new Map();
/** @type {Set<string>} */
const wanted = new Set();
/** @type {Map<string, {scores: Map<string, number>|null, stale: boolean}>} */
const scores = new Map();
/** @type {((event: StoreEvent) => void)[]} */
const listeners = [];
/** @type {AbortController|null} */
let opening = null;
let uses = 0, busy = false, generation = 0;
/** @type {number|undefined} set during a pause */
let pausing;

export const store = {
  /** @type {Fleet|null} */
  fleet: null,
  /** world is that of fleet; "" is now. */
  world: "",
  /** @type {string[]} plugins are those that excluded a cluster: the cell 'A' means the first one. */
  plugins: [],
  /** loading is true while another fleet is being read. */
  loading: false,
  /** error is why the fleet cannot be read. */
  error: "",
  /** @type {{problem: string, since: number, next: number}|null} lost is set while nothing comes from the server. */
  lost: null,
  /** changed is when the last change came, as a number; 0 for none yet. */
  changed: 0,

  /** @param {(event: StoreEvent) => void} listener */
  on(listener) {
    listeners.push(listener);
  },

  /** unread says that the hub has not been read, so that nothing is known; "" if it has. */
  unread() {
    const { fleet, world, lost, error } = store;
    if (fleet ? world || fleet.hub.synced : error) return "";
    return lost || fleet?.hub.state === "Lost" ? "The hub could not be read." : "Reading the hub…";
  },

  /** isOld says that what is shown may no longer be true. */
  isOld: () => Boolean(store.lost || store.error || store.fleet?.hub.state === "Lost"),

  /** lacks is the permission to list objects that the viewer does not have; empty otherwise. @param {string} plural */
  lacks: (plural) => store.fleet?.missing?.find((one) => one.split(" in ")[0] === "list " + plural) || "",

  /**
   * none says why there are no objects of a kind: none exist, or the viewer may not list them.
   * @param {"Placement"|"cluster"} noun
   */
  none(noun) {
    const { namespace, placements, clusters } = store.fleet || { placements: [], clusters: [] };
    if ((noun === "Placement" ? placements : clusters).length) return "The filter leaves no " + noun + "s.";
    const lacks = store.lacks(noun === "Placement" ? "placements" : "managedclusters");
    if (lacks) return "You may not see " + noun + "s: you do not have the permission to " + lacks + ".";
    const where = namespace && noun === "Placement" ? " in namespace " + namespace : "";
    return "There are no " + noun + "s" + where + " yet. " + (noun === "Placement" ? "Create one with kubectl apply" : "Register one") + ", and it appears here.";
  },

  open,
  regained,
  column,
  scoresOf,
  tell,

  /**
   * note says why the cells of a Placement are not known in full.
   * @param {string} placement
   */
  note: (placement) => known.get(placement)?.note || "",
  /** placement returns a row by name. @param {string} name */
  placement: (name) => store.fleet?.placements.find((p) => p.placement === name),
  /** cluster returns a row by name. @param {string} name */
  cluster: (name) => store.fleet?.clusters.find((c) => c.name === name),
  /** rowOf returns the position of a cluster in the cells; -1 if there is no such cluster. @param {string} name */
  rowOf: (name) => search(store.fleet?.clusters || [], (c) => c.name, name),
};

/** @param {StoreEvent} event */
function tell(event) {
  for (const listener of listeners) listener(event);
}

/**
 * open shows a world. What is shown stays until it has been read.
 * @param {string} world
 */
async function open(world) {
  opening?.abort();
  const mine = opening = new AbortController();
  store.loading = true;
  tell({ connection: true });
  try {
    const fleet = /** @type {Fleet} */ (await get("api/fleet", { world }, mine.signal));
    if (mine !== opening) return;
    replace(fleet, world);
    store.error = "";
  } catch (error) {
    if (mine !== opening) return;
    store.error = /** @type {Error} */ (error).message;
  }
  opening = null;
  store.loading = false;
  tell({ fleet: !store.error, connection: true });
}

/**
 * @param {Fleet} fleet
 * @param {string} world
 */
function replace(fleet, world) {
  fleet.clusters ||= [];
  fleet.placements ||= [];
  fleet.changes ||= [];
  const before = store.fleet?.clusters || [];
  const same = before.length === fleet.clusters.length && before.every((c, i) => c.name === fleet.clusters[i].name);
  store.fleet = fleet;
  // Plugins have other letters in another world, and after the server has restarted.
  forget(same && world === store.world);
  store.world = world;
}

/**
 * forget has all columns read again. They are shown until then if their order still holds.
 * @param {boolean} keep
 */
function forget(keep) {
  generation++;
  clearTimeout(pausing);
  pausing = undefined;
  wanted.clear();
  scores.clear();
  if (!keep) known.clear();
  for (const column of known.values()) column.stale = true;
}

/**
 * column returns the cells of a Placement, in the order of store.fleet.clusters. They are read in
 * the background if they are not known; then a StoreEvent has columns.
 * @param {string} placement
 * @returns {string|undefined}
 */
function column(placement) {
  const have = known.get(placement);
  if (have) have.used = ++uses;
  if (!have || have.stale) {
    wanted.delete(placement);
    wanted.add(placement);
    // What was wanted first has left the sight.
    if (wanted.size > WANTED) wanted.delete(/** @type {string} */ (wanted.values().next().value));
    if (!busy && !pausing) {
      busy = true;
      setTimeout(readColumns);
    }
  }
  return have?.cells;
}

/** pause asks nothing for a while. */
function pause() {
  pausing ||= setTimeout(ask, PAUSE);
}

/** ask ends a pause: what is still in sight is wanted again. */
function ask() {
  clearTimeout(pausing);
  pausing = undefined;
  tell({ columns: true });
}

/** regained has everything asked again that failed while there was no connection. */
function regained() {
  ask();
  tell({ all: true });
}

/** readColumns reads what is wanted, the newest wishes first. */
async function readColumns() {
  while (wanted.size && store.fleet && !pausing) {
    const batch = [...wanted].slice(-BATCH);
    for (const placement of batch) wanted.delete(placement);
    const mine = generation, rows = store.fleet.rows;
    try {
      const answer = /** @type {Columns} */ (await get("api/columns", { world: store.world, placement: batch.filter(exists) }));
      if (mine !== generation) continue;
      if (answer.rows === rows) accept(answer);
      // The Update with the other rows is on its way, or the server has the page read everything.
      else pause();
    } catch (error) {
      // One of the Placements may just have been deleted: then its Update comes. Others say why, and
      // are asked for again later.
      if (mine !== generation) continue;
      const note = /** @type {Error} */ (error).message;
      for (const placement of batch.filter(exists)) set(placement, "6".repeat(store.fleet.clusters.length), note, true);
      pause();
    }
    tell({ columns: true });
  }
  busy = false;
}

/** @param {string} placement */
const exists = (placement) => placements().has(placement);

/** @type {{of: unknown, names: Set<string>}} */
let names = { of: null, names: new Set() };
function placements() {
  const of = store.fleet?.placements;
  if (names.of !== of) names = { of, names: new Set(of?.map((p) => p.placement)) };
  return names.names;
}

/** @param {Columns} answer */
function accept(answer) {
  if (store.plugins.some((plugin, i) => i < answer.plugins.length && plugin !== answer.plugins[i])) {
    for (const column of known.values()) column.stale = true;
  }
  store.plugins = answer.plugins;
  for (const one of answer.columns || []) set(one.placement, one.cells, one.note || "");
}

/**
 * @param {string} placement
 * @param {string} cells
 * @param {string} note
 * @param {boolean} [stale]
 */
function set(placement, cells, note, stale = false) {
  known.set(placement, { cells, note, stale, used: ++uses });
  if (known.size <= KEPT) return;
  let oldest = "", least = Infinity;
  for (const [name, { used }] of known) {
    if (used < least) [oldest, least] = [name, used];
  }
  known.delete(oldest);
}

/**
 * scoresOf returns the scores of the candidates of a Placement, by cluster; null while they are read.
 * @param {string} placement
 * @returns {Map<string, number>|null}
 */
function scoresOf(placement) {
  const have = scores.get(placement);
  if (have && !have.stale) return have.scores;
  if (pausing) return have?.scores || null;
  const entry = { scores: have?.scores || null, stale: false };
  scores.set(placement, entry);
  const mine = generation;
  get("api/scores", { world: store.world, placement }).then(
    (/** @type {Scores} */ answer) => new Map(Object.entries(answer.scores || {})),
    () => null,
  ).then((found) => {
    if (mine !== generation) return;
    entry.scores = found || entry.scores;
    if (!found) {
      entry.stale = true;
      pause();
    }
    tell({ columns: true });
  });
  return entry.scores;
}

/**
 * apply changes the fleet as an Update says.
 * @param {Update} update
 */
export function apply(update) {
  const fleet = store.fleet;
  if (!fleet) return;
  const connected = update.hub.state === "Connected" && fleet.hub.state !== "Connected";
  Object.assign(fleet, { version: update.version, at: update.at, hub: update.hub });
  fleet.clusters = merge(fleet.clusters, update.clusters, update.goneClusters, (c) => c.name);
  fleet.placements = merge(fleet.placements, update.placements, update.gonePlacements, (p) => p.placement);
  if (update.changes) fleet.changes = update.changes;
  const changedPlacements = new Set([...(update.placements || []).map((p) => p.placement), ...(update.gonePlacements || []), ...(update.columns || [])]);
  const changedClusters = new Set([...(update.clusters || []).map((c) => c.name), ...(update.goneClusters || [])]);
  for (const placement of update.gonePlacements || []) known.delete(placement);
  if (fleet.rows !== update.rows) forget(false);
  fleet.rows = update.rows;
  for (const [placement, column] of known) column.stale ||= update.allColumns === true || changedPlacements.has(placement);
  for (const [placement, entry] of scores) entry.stale ||= update.allColumns === true || changedPlacements.has(placement);
  const any = changedPlacements.size + changedClusters.size > 0 || update.allColumns || update.changes;
  if (any) store.changed = Date.now();
  tell({ connection: true, all: update.allColumns, clusters: changedClusters.size > 0, columns: Boolean(any), changedPlacements, changedClusters });
  if (connected) regained();
}

/**
 * merge puts rows in their places in a sorted list, and returns a new one if anything differs.
 * @template T
 * @param {T[]} list
 * @param {T[]|undefined} rows
 * @param {string[]|undefined} gone
 * @param {(row: T) => string} nameOf
 * @returns {T[]}
 */
export function merge(list, rows, gone, nameOf) {
  if (!rows?.length && !gone?.length) return list;
  const named = new Map(list.map((row) => [nameOf(row), row]));
  for (const name of gone || []) named.delete(name);
  let added = false;
  for (const row of rows || []) {
    added ||= !named.has(nameOf(row));
    named.set(nameOf(row), row);
  }
  const all = [...named.values()];
  if (added) all.sort((a, b) => compare(nameOf(a), nameOf(b)));
  return all;
}

/**
 * compare orders names as the server does: by bytes, and namespaces before names.
 * @param {string} a
 * @param {string} b
 */
export function compare(a, b) {
  const [aNamespace, bNamespace] = [a.split("/")[0], b.split("/")[0]];
  if (aNamespace !== bNamespace) return aNamespace < bNamespace ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * search finds a name in a sorted list.
 * @template T
 * @param {T[]} list
 * @param {(row: T) => string} nameOf
 * @param {string} name
 */
function search(list, nameOf, name) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (nameOf(list[middle]) < name) low = middle + 1;
    else high = middle;
  }
  return low < list.length && nameOf(list[low]) === name ? low : -1;
}
