// What is above the matrix: how clusters are grouped and sorted, and which are shown.
import { byId, make, plural, shorten, visible } from "./dom.js";
import { groupKeys } from "./layout.js";
import { current } from "./matrix.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** @typedef {[value: string, text: string]} Choice */

const group = make("select", ""), sort = make("select", ""), all = make("input", ""), summary = make("span", "quiet summary");
all.type = "checkbox";
const allText = make("span", "");

/** initControls puts them into the page. */
export function initControls() {
  byId("controls").append(
    make("label", "", "Group by ", group), make("label", "", "Sort by ", sort), make("label", "", all, allText), summary,
  );
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
    : !placements ? "There are no Placements yet. Create one with kubectl apply, and it appears here."
      : !clusters.length ? "There are no clusters yet. Register one, and it appears here."
        : hidden ? "None of the shown Placements may select one of the " + plural(hidden, "cluster") + " left: the namespace is not bound to their sets. Tick the box above to see them."
          : "The filter leaves " + (shown.placements.length ? "no clusters." : "no Placements.");
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
