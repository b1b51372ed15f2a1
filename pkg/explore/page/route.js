// The state of the page is the hash of its URL, "#/?view=matrix&filter=state:held", so that each
// view has a link, and Back works.

/**
 * @typedef {object} Route
 * @property {string} view overview, matrix, clusters, placement, cluster, cell or whatif; the last
 *   four are details beside one of the others
 * @property {string} beside the view beside details: overview, matrix or clusters
 * @property {string} placement NS/NAME
 * @property {string} cluster
 * @property {string} filter
 * @property {string} group set, none or label:KEY
 * @property {string} closed the names of collapsed groups, separated by commas
 * @property {string} sort name, decisions or score
 * @property {string} by the Placement whose scores sort
 * @property {string} order the column that sorts the table of clusters; with - before it from the end
 * @property {string} all 1 to show clusters that are no candidates
 * @property {string} world
 * @property {string} ns
 * @property {string} edits of a what-if, as JSON
 */

/** @type {Route} */
const DEFAULTS = {
  view: "overview", beside: "", placement: "", cluster: "", filter: "", group: "", closed: "", sort: "", by: "", order: "", all: "", world: "", ns: "", edits: "",
};
const KEYS = /** @type {(keyof Route)[]} */ (Object.keys(DEFAULTS));
/** These belong to one view: another one begins without them. */
const OF_VIEW = /** @type {(keyof Route)[]} */ (["placement", "cluster", "edits"]);
export const MAIN = ["overview", "matrix", "clusters"];
const DETAILS = ["placement", "cluster", "cell", "whatif"];

/** @param {string} view */
export const isDetails = (view) => DETAILS.includes(view);

/** @type {((route: Route, before: Route) => void)[]} */
const listeners = [];
let current = parse(location.hash);

/**
 * @param {string} hash
 * @returns {Route}
 */
function parse(hash) {
  const query = new URLSearchParams(hash.replace(/^#\/?\??/, ""));
  const route = { ...DEFAULTS };
  for (const key of KEYS) route[key] = query.get(key) || DEFAULTS[key];
  if (![...MAIN, ...DETAILS].includes(route.view)) route.view = DEFAULTS.view;
  return route;
}

/**
 * changed returns the route after changes. A change of the view drops what belongs to the one before.
 * @param {Partial<Route>} changes
 * @returns {Route}
 */
function changed(changes) {
  const next = { ...current };
  if (changes.view !== undefined) {
    for (const key of OF_VIEW) next[key] = "";
    next.beside = "";
    if (isDetails(changes.view)) next.beside = main();
  }
  return { ...next, ...changes };
}

/** @param {Route} next */
function write(next) {
  const query = new URLSearchParams();
  for (const key of KEYS) {
    if (next[key] && next[key] !== DEFAULTS[key]) query.set(key, next[key]);
  }
  // These are allowed in a hash, and a link without escapes can be read.
  return "#/" + (query.size ? "?" + query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":") : "");
}

/** main is the view that is shown beside details, or alone. */
function main() {
  if (!isDetails(current.view)) return current.view;
  return current.beside || (current.view === "cell" ? "matrix" : "overview");
}

function tell() {
  const before = current;
  current = parse(location.hash);
  for (const listener of listeners) listener(current, before);
}

addEventListener("popstate", tell);

export const route = {
  get: () => current,
  main,
  /** @param {Partial<Route>} changes */
  href: (changes) => write(changed(changes)),
  /**
   * go makes a new entry of the history.
   * @param {Partial<Route>} changes
   */
  go(changes) {
    const next = write(changed(changes));
    if (next === write(current)) return;
    history.pushState(null, "", next);
    tell();
  },
  /**
   * replace keeps the entry of the history.
   * @param {Partial<Route>} changes
   */
  replace(changes) {
    history.replaceState(null, "", write(changed(changes)));
    tell();
  },
  /** @param {(route: Route, before: Route) => void} listener */
  on(listener) {
    listeners.push(listener);
  },
};
