// Parts of the details: how the panel is filled, links with copy buttons, bars, long lists cut short,
// conditions in words.
/** @import {Content} from "./dom.js" */
/** @import {Route} from "./route.js" */
/** @import {Condition} from "./types.js" */
import { Refused } from "./api.js";
import { code, copyButton, link, make, since, visible } from "./dom.js";
import { route } from "./route.js";

/** How many names of a list are shown until somebody asks for all. */
const CUT = 50;

/** AGAIN is how long after a failure the server is asked again. */
const AGAIN = 5000;

let latest = 0; // the last question of the panel; answers to earlier ones come too late

/**
 * show fills the panel with the answer to a question. If it shows the same thing already, as after a change on the hub, the old answer
 * stays until the new one is there, and what was scrolled to, opened or focused stays so.
 * @template T
 * @param {HTMLElement} panel
 * @param {string} key names what is shown
 * @param {Content[]} title
 * @param {() => Promise<T>} question
 * @param {(answer: T) => Content[]} tell
 */
export async function show(panel, key, title, question, tell) {
  const mine = ++latest;
  const again = panel.dataset.shown === key;
  panel.dataset.shown = key;
  panel.setAttribute("aria-busy", "true");
  if (!again) {
    panel.replaceChildren(make("h2", "", ...title), make("p", "quiet", "Deciding…"));
    panel.scrollTop = 0;
  }
  /** @type {Content[]} */
  let content;
  try {
    content = tell(await question());
  } catch (error) {
    content = [failure("No answer: ", error)];
    const final = error instanceof Refused && error.status < 500;
    if (!final) setTimeout(() => mine === latest && panel.dataset.shown === key && show(panel, key, title, question, tell), AGAIN);
  }
  if (mine !== latest || panel.dataset.shown !== key) return;
  keeping(panel, () => fill(panel, make("h2", "", ...title), ...content));
  panel.removeAttribute("aria-busy");
}

/**
 * fill replaces what an element has.
 * @param {HTMLElement} element
 * @param {...Content} content
 */
export function fill(element, ...content) {
  element.replaceChildren(...make("div", "", ...content).childNodes);
}

/**
 * leave makes answers that are on their way come too late: something else fills the panel.
 * @param {HTMLElement} panel
 * @param {string} key
 */
export function leave(panel, key) {
  latest++;
  panel.dataset.shown = key;
  panel.removeAttribute("aria-busy");
}

/**
 * keeping draws the panel anew, and keeps its place, what is open, and the focus.
 * @param {HTMLElement} panel
 * @param {() => void} draw
 */
export function keeping(panel, draw) {
  const top = panel.scrollTop;
  const open = new Set([...panel.querySelectorAll("details[open]")].map(keyOf));
  const all = new Set([...panel.querySelectorAll("[data-all]")].map(keyOf));
  const focused = panel.contains(document.activeElement) && document.activeElement !== panel ? keyOf(/** @type {Element} */ (document.activeElement)) : "";
  const kept = new Map([.../** @type {NodeListOf<HTMLElement>} */ (panel.querySelectorAll("details[open][data-kept]"))].map((e) => [e.dataset.kept, e]));
  draw();
  for (const e of /** @type {NodeListOf<HTMLElement>} */ (panel.querySelectorAll("[data-kept]"))) {
    const old = kept.get(e.dataset.kept);
    if (!old) continue;
    e.replaceWith(old);
    old.dispatchEvent(new Event("toggle"));
  }
  for (const e of panel.querySelectorAll("details")) if (open.has(keyOf(e))) e.open = true;
  for (const e of /** @type {NodeListOf<HTMLElement>} */ (panel.querySelectorAll("[data-key]"))) if (all.has(keyOf(e))) e.dispatchEvent(new Event("showall"));
  panel.scrollTop = top;
  if (!focused) return;
  const again = [...panel.querySelectorAll("a, button, summary, input, select, textarea")].find((e) => keyOf(e) === focused);
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  else panel.focus({ preventScroll: true });
}

/**
 * keyOf names an element, so that it can be found after the panel was drawn anew.
 * @param {Element} e
 */
function keyOf(e) {
  const own = e instanceof HTMLElement ? e.dataset.key || e.getAttribute("aria-label") || e.getAttribute("href") : "";
  if (own) return e.tagName + own;
  if (e instanceof HTMLDetailsElement) return e.tagName + (e.querySelector("summary")?.textContent || "");
  return e.tagName + e.id + e.textContent;
}

/**
 * failure says why something did not work.
 * @param {string} what
 * @param {unknown} error
 */
export function failure(what, error) {
  const text = error instanceof Error ? error.message : String(error);
  const e = make("p", "bad", what + text);
  e.setAttribute("role", "alert");
  return e;
}

/**
 * section has a heading.
 * @param {string} title
 * @param {...Content} content
 */
export function section(title, ...content) {
  return make("section", "", make("h3", "", title), ...content);
}

/** @param {string} name */
export const placementLink = (name) => to({ view: "placement", placement: name }, name);

/** @param {string} name */
export const clusterLink = (name) => to({ view: "cluster", cluster: name }, name);

/**
 * cellLink leads to why a cluster was, or was not, selected.
 * @param {string} placement
 * @param {string} cluster
 * @param {string} text
 */
export function cellLink(placement, cluster, text) {
  const a = to({ view: "cell", placement, cluster }, text);
  a.title = visible("Why " + cluster + " for " + placement);
  return a;
}

/**
 * filterLink leads to the matrix with a filter.
 * @param {string} text
 * @param {string} filter
 */
export function filterLink(text, filter) {
  const a = to({ view: "matrix", filter }, text);
  a.title = visible("Show only " + filter);
  return a;
}

/**
 * to is a link to another state of the page.
 * @param {Partial<Route>} changes
 * @param {Content} text
 */
export const to = (changes, text) => link(route.href(changes), "", text);

/**
 * copied is an element with a button that copies a name.
 * @param {Node} element
 * @param {string} name
 */
export function copied(element, name) {
  return make("span", "copied", element, copyButton(name, name));
}

/**
 * cutList has one item for each name; a long list is cut until somebody asks for all.
 * @template T
 * @param {T[]} items
 * @param {(item: T) => Node} item
 * @param {string} what names the list
 */
export function cutList(items, item, what) {
  const list = make("ul", "names", ...items.slice(0, CUT).map((i) => make("li", "", item(i))));
  if (items.length <= CUT) return list;
  const more = button("Show all " + items.length.toLocaleString("en"), () => {
    list.append(...items.slice(CUT).map((i) => make("li", "", item(i))));
    list.dataset.all = "";
    more.remove();
  });
  list.dataset.key = "list " + what;
  list.addEventListener("showall", () => more.click());
  more.setAttribute("aria-label", visible(more.textContent + " " + what));
  return make("div", "", list, more);
}

/**
 * @param {string} text
 * @param {() => void} does
 * @param {string} [className]
 */
export function button(text, does, className = "") {
  const b = make("button", className, text);
  b.type = "button";
  b.addEventListener("click", does);
  return b;
}

/**
 * bar shows a part of a whole: from 0 to 1. What it means is written beside it.
 * @param {number} part
 * @param {string} [className]
 */
export function bar(part, className = "") {
  const fill = make("div", ("fill " + className).trim());
  fill.style.width = Math.max(0, Math.min(1, part)) * 100 + "%";
  const e = make("div", "bar", fill);
  e.setAttribute("aria-hidden", "true");
  return e;
}

/**
 * measured is a line of a name and a number, with a bar below.
 * @param {string | Node} name
 * @param {string} value
 * @param {...Node} bars
 */
export function measured(name, value, ...bars) {
  return make("div", "score", make("div", "measure", make("span", "", name), make("span", "", value)), ...bars);
}

/**
 * conditionList says conditions in words. Problems come first, as in the answer of the server.
 * @param {Condition[]} conditions
 */
export function conditionList(conditions) {
  return make("ul", "conditions", ...conditions.map((c) => {
    const mark = make("span", "tick", c.bad ? "!" : "✓");
    mark.setAttribute("aria-hidden", "true");
    const text = make("span", "said", c.text);
    text.title = visible(c.type + "=" + c.status + " " + c.reason);
    return make("li", c.bad ? "bad" : "good", mark, make("div", "", text, " ", since(c.since), ...(c.message ? [make("div", "message", c.message)] : [])));
  }));
}

/**
 * folded has a long text, such as YAML, that is opened by its summary.
 * @param {string} summary
 * @param {string} text
 */
export function folded(summary, text) {
  return make("details", "", make("summary", "", summary), code(text));
}

/**
 * pairs is a list of names and values.
 * @param {[string | Node, string | Node][]} all
 */
export function pairs(all) {
  return make("dl", "pairs", ...all.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]));
}
