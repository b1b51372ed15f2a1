// The controls: those of the filter, and above the matrix how clusters are grouped and sorted.
import { byId, make, plural, shorten, visible } from "./dom.js";
import { termOf, valuesOf, withTerm } from "./filter.js";
import { groupKeys, regionKey } from "./layout.js";
import { current } from "./matrix.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** @typedef {[value: string, text: string]} Choice */

const group = make("select", ""), sort = make("select", ""), all = make("input", ""), summary = make("span", "quiet summary");
all.type = "checkbox";
const allText = make("span", "");

/** FILTERS are the terms of the filter that have a control, with the words for no choice. @type {[string, string][]} */
const FILTERS = [["state:", "every state"], ["ns:", "every namespace"], ["set:", "every set"], ["label:", "every region"], ["available:", "every availability"]];
const filters = FILTERS.map(([start, text]) => {
  const select = make("select", "");
  select.setAttribute("aria-label", "Filter by " + text.slice("every ".length));
  select.addEventListener("change", () => route.go({ filter: withTerm(route.get().filter, startOf(start), select.value) }));
  return select;
});

/** startOf is how the term of a control begins. @param {string} start */
const startOf = (start) => (start === "label:" ? start + regionKey(store.fleet?.clusters || []) + "=" : start);

/** drawFilters shows what the filter has of them. */
export function drawFilters() {
  const { placements, clusters } = store.fleet || { placements: [], clusters: [] };
  FILTERS.forEach(([start, text], i) => {
    const whole = startOf(start), now = termOf(route.get().filter, whole);
    const values = start === "label:" ? [...new Set(clusters.map((c) => c.labels?.[whole.slice("label:".length, -1)] || ""))].filter(Boolean).sort() : valuesOf(start.slice(0, -1), placements, clusters);
    filters[i].hidden = !values.length;
    choices(filters[i], [["", text], ...[...new Set([...values, now])].filter(Boolean).map((value) => /** @type {Choice} */ ([value, shorten(value, 40)]))], now);
    filters[i].classList.toggle("set", Boolean(now));
  });
}

/** initControls puts them into the page. */
export function initControls() {
  byId("controls").append(
    make("label", "", "Group by ", group), make("label", "", "Sort by ", sort), make("label", "", all, allText), summary,
  );
  byId("filters").append(...filters);
  group.addEventListener("change", () => route.go({ group: group.value, closed: "" }));
  sort.addEventListener("change", () => {
    const [by, placement] = sort.value.split(" ");
    route.go({ sort: by, by: placement || "" });
  });
  all.addEventListener("change", () => route.go({ all: all.checked ? "1" : "" }));
  // The current Placement can be another one than when the choices were written.
  sort.addEventListener("focus", drawSort);
  sort.addEventListener("mousedown", drawSort);
}

/**
 * drawControls shows the state of the route.
 * @param {import("./filter.js").Result} shown
 * @param {number} hidden the number of clusters that are no candidates
 */
export function drawControls(shown, hidden) {
  const clusters = store.fleet?.clusters || [];
  const keys = groupKeys(clusters).slice(0, 40).map((key) => /** @type {Choice} */ (["label:" + key, "label " + shorten(key, 40)]));
  choices(group, [["set", "cluster set"], ["none", "nothing"], ...keys], route.get().group || "set");
  drawSort();
  all.checked = route.get().all === "1";
  const none = " clusters that no shown Placement may select";
  allText.textContent = route.get().all ? "Also" + none : hidden ? "Also the " + plural(hidden, "cluster") + none.slice(" clusters".length) : "Also" + none;
  all.disabled = !hidden && !all.checked;
  const placements = store.fleet?.placements.length || 0;
  const part = (/** @type {number} */ some, /** @type {number} */ of, /** @type {string} */ noun) => (some === of ? plural(of, noun) : some.toLocaleString("en") + " of " + plural(of, noun));
  summary.textContent = part(shown.clusters.length - hidden, clusters.length, "cluster") + ", " + part(shown.placements.length, placements, "Placement");
  const empty = byId("empty"), nothing = !shown.placements.length || shown.clusters.length === hidden;
  empty.hidden = !nothing;
  byId("grid").hidden = nothing;
  if (!nothing) return;
  empty.textContent = !store.fleet || store.unread() ? store.unread()
    : !placements ? store.none("Placement")
      : !clusters.length ? store.none("cluster")
        : hidden ? "None of the shown Placements may select one of the " + plural(hidden, "cluster") + " left: the namespace is not bound to their sets. Tick the box above to see them."
          : store.none(shown.placements.length ? "cluster" : "Placement");
}

function drawSort() {
  const { by } = route.get(), now = current().placement;
  /** @type {Choice[]} */
  const list = [["name", "name"], ["decisions", "number of decisions"]];
  for (const name of new Set([by, now].filter(Boolean))) list.push(["score " + name, "score for " + shorten(name, 40)]);
  const chosen = route.get().sort === "score" && by ? "score " + by : route.get().sort || "name";
  choices(sort, list, chosen);
}

/**
 * choices writes those of a select, unless they are the same.
 * @param {HTMLSelectElement} select
 * @param {Choice[]} list
 * @param {string} chosen
 */
function choices(select, list, chosen) {
  if ([...select.options].map((o) => o.value).join("\n") !== list.map(([value]) => value).join("\n")) {
    select.replaceChildren(...list.map(([value, text]) => new Option(visible(text), value)));
  }
  if (select.value !== chosen) select.value = chosen;
}
