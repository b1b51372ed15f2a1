// What if: edits whose effect on the whole fleet is shown without being written. The edits are in
// the URL, so that a what-if has a link.
/** @import {Comparison, Edit, WhatIf} from "./types.js" */
import { get, post, session } from "./api.js";
import { comparisonTable, consequences } from "./comparison.js";
import { copyButton, make } from "./dom.js";
import { editForm, editList, editsOf, isComplete, textOf } from "./edits.js";
import { button, failure, fill, keeping, leave, to } from "./parts.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** POLL is the time between two questions how far a what-if is. */
const POLL = 300;

/** @type {{edits: string|null, answer: WhatIf|null, error: unknown}} the last what-if, with its edits */
let last = { edits: null, answer: null, error: null };
/** @type {HTMLElement|null} */
let shownIn = null;

/**
 * whatIfLink leads to a what-if with these edits.
 * @param {Edit[]} edits
 * @param {string} text
 */
export function whatIfLink(edits, text) {
  const a = to({ view: "whatif", edits: textOf(edits) }, text);
  a.className = "what-if";
  return a;
}

/** @param {HTMLElement} panel */
export function showWhatIf(panel) {
  const { edits, world } = route.get();
  if (!shownIn) route.on((now) => now.view === "whatif" && shownIn && now.edits !== shownIn.dataset.edits && showWhatIf(shownIn));
  // A change on the hub must not take away what somebody types.
  if (panel.dataset.shown === "whatif" && panel.dataset.edits === edits && panel.dataset.world === world && panel.querySelector("form.edit")) return;
  shownIn = panel;
  keeping(panel, () => draw(panel, edits));
  leave(panel, "whatif");
  panel.dataset.edits = edits;
  panel.dataset.world = world;
}

/**
 * @param {HTMLElement} panel
 * @param {string} text
 */
function draw(panel, text) {
  /** @type {Edit[]} */
  let edits = [];
  /** @type {Edit|undefined} */
  let begun;
  const heading = make("h2", "", "What if…");
  const plain = make("p", "", "Compose a change and see what Berth would decide. Nothing is written to the hub.");
  if (!session.live) return panel.replaceChildren(heading, make("p", "", "A what-if needs a hub. Only a recording is shown."));
  try {
    const all = editsOf(text);
    edits = all.filter(isComplete);
    begun = all.find((e) => !isComplete(e));
  } catch (error) {
    return panel.replaceChildren(heading, plain, failure("", error), button("Begin anew", () => route.go({ edits: "" })));
  }
  const result = make("div", "result");
  result.setAttribute("aria-live", "polite");
  const run = button("Show what would change", () => start(edits, result, run), "run");
  run.disabled = edits.length === 0;
  const form = editForm(begun, (edit) => route.go({ edits: textOf([...edits, edit]) }));
  panel.replaceChildren(heading, plain,
    edits.length ? editList(edits) : make("p", "quiet", "There is no edit yet. Add one below."),
    make("p", "", run, " ", edits.length ? copyButton(location.href, "a link to this what-if") : ""),
    result, make("h3", "", "Add an edit"), form);
  if (last.edits === textOf(edits)) tell(result, run);
}

/**
 * start asks the server, and asks again until it is done.
 * @param {Edit[]} edits
 * @param {HTMLElement} result
 * @param {HTMLButtonElement} run
 */
async function start(edits, result, run) {
  /** @type {typeof last} */
  const mine = last = { edits: textOf(edits), answer: null, error: null };
  run.disabled = true;
  result.replaceChildren(make("p", "quiet", "Deciding…"));
  try {
    await ask(edits, (answer) => {
      mine.answer = answer;
      if (mine === last) redraw();
      return mine === last;
    });
  } catch (error) {
    mine.error = error;
  }
  if (mine === last) redraw();
}

/**
 * ask has the server decide with edits, and tells each answer until one is done, or tell returns false.
 * @param {Edit[]} edits
 * @param {(answer: WhatIf) => boolean} tell
 */
export async function ask(edits, tell) {
  // Edits are of what the hub has now, also if the matrix shows the result of the what-if before.
  let answer = /** @type {WhatIf} */ (await post("api/what-if", { edits }));
  while (tell(answer) && !answer.done) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    answer = /** @type {WhatIf} */ (await get("api/what-if", { id: answer.id }));
  }
}

/** redraw shows how far the what-if is, if its edits are still shown. */
function redraw() {
  const result = shownIn?.querySelector(".result"), run = shownIn?.querySelector("button.run");
  if (!shownIn || shownIn.dataset.shown !== "whatif" || !(result instanceof HTMLElement) || !(run instanceof HTMLButtonElement)) return;
  let edits = "";
  try {
    edits = textOf(editsOf(shownIn.dataset.edits || "").filter(isComplete));
  } catch {
    return;
  }
  if (edits === last.edits) tell(result, run);
}

/**
 * @param {HTMLElement} result
 * @param {HTMLButtonElement} run
 */
function tell(result, run) {
  const { answer, error } = last;
  run.disabled = !error && !answer?.done;
  if (error) return result.replaceChildren(failure("", error));
  if (!answer) return result.replaceChildren(make("p", "quiet", "Deciding…"));
  showAnswer(result, answer);
}

/**
 * showAnswer shows how far a what-if is, or what it changes.
 * @param {HTMLElement} result
 * @param {WhatIf} answer
 */
export function showAnswer(result, answer) {
  if (!answer.done) return progress(result, answer);
  if (answer.error) return result.replaceChildren(failure("", answer.error));
  const c = /** @type {Comparison} */ (answer.comparison);
  const matrix = to({ view: "matrix", world: answer.id }, "Show the matrix after it");
  matrix.className = "world";
  fill(result, make("h3", "", "What would change"), comparisonTable(c), ...consequences(c),
    answer.hasWorld && make("p", "", store.world === answer.id ? to({ world: "" }, "Back to the matrix of now") : matrix));
}

/** @param {HTMLElement} result @param {WhatIf} answer */
function progress(result, answer) {
  let bar = result.querySelector("progress"), text = result.querySelector("p.progress");
  if (!bar || !text) {
    bar = make("progress", "");
    bar.setAttribute("aria-label", "Placements decided");
    text = make("p", "progress");
    // Each number must not be read aloud.
    text.setAttribute("aria-live", "off");
    result.replaceChildren(text, bar);
  }
  text.textContent = answer.all ? "Decided " + answer.decided.toLocaleString("en") + " of " + answer.all.toLocaleString("en") + " Placements" : "Preparing…";
  if (answer.all) {
    bar.max = answer.all;
    bar.value = answer.decided;
  }
}
