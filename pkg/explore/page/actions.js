// What the viewer can do: a button for each action, and a dialog that says what would change and asks.
/** @import {Action, ActAnswer, ActRequest} from "./types.js" */
import { post } from "./api.js";
import { code, make } from "./dom.js";
import { comparisonTable, consequences } from "./comparison.js";
import { button, failure, fill } from "./parts.js";
import { store } from "./store.js";

/** @typedef {{placement?: string, cluster?: string}} Target */

const ON_CLUSTER = ["evict", "drain", "undrain"];
const ON_CLUSTER_ONLY = ["drain", "undrain"];
// Their button is not highlighted: they go back.
const PLAIN = ["undo", "pin"];

/** @param {string} verb */
const title = (verb) => verb.charAt(0).toUpperCase() + verb.slice(1);

/**
 * actionButtons has a button for each action. One that the viewer may not take is disabled, and says which permission it needs, with
 * the command for somebody who has it.
 * @param {Action[]} actions
 * @param {Target} target
 */
export function actionButtons(actions, target) {
  const box = make("div", "actions");
  if (!actions.length || store.world) return box;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Actions");
  const able = actions.filter((a) => !a.missing), missing = actions.filter((a) => a.missing);
  /** @param {Action} action */
  const one = (action) => {
    const b = button(title(action.verb) + "…", () => confirm(action, target, b), "act");
    b.dataset.key = "act " + action.verb;
    return b;
  };
  box.append(...able.map(one));
  for (const action of missing) {
    const b = one(action);
    b.disabled = true;
    b.textContent = title(action.verb);
    box.append(make("div", "missing", b, make("p", "", "You need: " + action.missing), code(action.command)));
  }
  return box;
}

/**
 * confirm asks the server what an action would change, shows it, and does it if the viewer confirms.
 * @param {Action} action
 * @param {Target} target
 * @param {HTMLButtonElement} opener
 */
function confirm(action, target, opener) {
  const dialog = make("dialog", "confirm");
  const heading = make("h2", "", title(action.verb) + " " + subject(action, target));
  heading.id = "confirm-title";
  dialog.setAttribute("aria-labelledby", heading.id);
  const body = make("div", "body", make("p", "quiet", "Deciding what would change…"));
  body.setAttribute("aria-live", "polite");
  const cancel = button("Cancel", () => dialog.close(), "cancel");
  const yes = button(title(action.verb), () => act(), PLAIN.includes(action.verb) ? "act" : "yes");
  yes.disabled = true;
  const footer = make("div", "buttons", yes, cancel);
  dialog.append(heading, body, footer);
  const comment = make("textarea", "");
  comment.rows = 2;
  comment.maxLength = 1000;

  /** @param {boolean} confirmed @returns {ActRequest} */
  const request = (confirmed) => ({
    verb: action.verb, placement: ON_CLUSTER_ONLY.includes(action.verb) ? undefined : target.placement, cluster: ON_CLUSTER.includes(action.verb) ? target.cluster : undefined,
    change: action.change || undefined, revision: action.revision || undefined, comment: comment.value.trim() || undefined, confirmed,
  });
  /** @param {unknown} error */
  const failed = (error) => {
    body.querySelector("[role=alert]")?.remove();
    body.append(failure("", error));
  };
  const act = async () => {
    yes.disabled = comment.disabled = true;
    try {
      const answer = /** @type {ActAnswer} */ (await post("api/act", request(true)));
      body.replaceChildren(make("p", "verdict done", answer.done || "Done."));
      yes.remove();
      cancel.textContent = "Close";
    } catch (error) {
      failed(error);
      yes.disabled = comment.disabled = false;
    }
    cancel.focus();
  };
  dialog.addEventListener("close", () => {
    dialog.remove();
    back(opener);
  });
  dialog.addEventListener("click", (event) => event.target instanceof HTMLAnchorElement && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
  post("api/act", request(false)).then((/** @type {ActAnswer} */ answer) => {
    const empties = (answer.diff?.changes || []).filter((c) => c.before > 0 && c.after === 0);
    fill(body,
      make("p", "question", answer.question), ...(answer.spec || []).map((line) => make("p", "", "Spec: " + line)), answer.note && make("p", "", answer.note), answer.diff && comparisonTable(answer.diff), ...(answer.diff ? consequences(answer.diff) : []),
      make("label", "", "Comment", comment),
      ...empties.map((c) => make("p", "bad", c.placement + " would have no clusters.")), make("p", "quiet", "The same on the command line:"), code(action.command));
    if (empties.length) {
      yes.className = "act";
      footer.append(yes);
    }
    if (answer.refused) failed(new Error(answer.refused));
    yes.disabled = !!answer.refused;
  }, (error) => body.replaceChildren(failure("", error)));
}

/** @param {Action} action @param {Target} target */
function subject(action, target) {
  if (ON_CLUSTER_ONLY.includes(action.verb)) return target.cluster || "";
  return action.verb === "evict" ? target.cluster + " from " + target.placement : target.placement || "";
}

/** back returns the focus to what opened the dialog, or what has taken its place. @param {HTMLButtonElement} opener */
function back(opener) {
  const now = opener.isConnected ? opener : /** @type {HTMLElement|null} */ (document.querySelector('[data-key="' + opener.dataset.key + '"]'));
  (now || document.getElementById("details"))?.focus();
}
