// The YAML of an object, read once it is opened. That of a Placement can be edited to see what would
// change: nothing is written.
import { get, session } from "./api.js";
import { code, make } from "./dom.js";
import { button, failure, fill } from "./parts.js";
import { store } from "./store.js";
import { ask, showAnswer } from "./whatif.js";

/**
 * yamlOf has the YAML of an object, which stays as it was edited while its details are drawn anew.
 * @param {"Placement"|"PlacementDecision"|"ManagedCluster"} kind
 * @param {string} name
 */
export function yamlOf(kind, name) {
  const box = make("div", ""), world = store.world;
  const details = make("details", "", make("summary", "", "YAML of " + kind + " " + name), box);
  details.dataset.kept = [kind, name, world].join(" ");
  const read = async () => {
    if (!details.open || details.dataset.edited) return;
    try {
      const { text } = await get("api/yaml", { kind, name, world });
      if (!details.dataset.edited) fill(box, ...(kind === "Placement" && session.live && !world ? editor(details, text, name, read) : [code(text)]));
    } catch (error) {
      fill(box, failure("", error));
    }
  };
  details.addEventListener("toggle", read);
  return details;
}

/**
 * @param {HTMLElement} details
 * @param {string} text
 * @param {string} name
 * @param {() => void} read reads the YAML again
 */
function editor(details, text, name, read) {
  const area = make("textarea", "yaml"), result = make("div", "result");
  area.value = text;
  area.rows = Math.min(24, text.split("\n").length);
  area.spellcheck = false;
  area.setAttribute("aria-label", "YAML of Placement " + name);
  result.setAttribute("aria-live", "polite");
  const preview = button("Preview the edited Placement", async () => {
    preview.disabled = true;
    try {
      await ask([{ kind: "replace", text: area.value }], (answer) => {
        showAnswer(result, answer);
        return result.isConnected;
      });
    } catch (error) {
      result.replaceChildren(failure("", error));
    }
    preview.disabled = reset.disabled = false;
  });
  const reset = button("Drop the edits", () => {
    delete details.dataset.edited;
    read();
  });
  preview.disabled = reset.disabled = true;
  area.addEventListener("input", () => {
    details.dataset.edited = "1";
    preview.disabled = reset.disabled = false;
  });
  return [make("p", "quiet", "Edit it to see what would change. Nothing is written to the hub."), area, make("p", "", preview, " ", reset), result];
}
