// The edits of a what-if: in the URL, in words, and the form that adds one.
/** @import {Edit} from "./types.js" */
import { make, plural } from "./dom.js";
import { button } from "./parts.js";
import { route } from "./route.js";
import { store } from "./store.js";

/** SUGGESTED is how many names a field suggests. */
const SUGGESTED = 20;

/**
 * editsOf reads the edits of a link. It throws an Error if they cannot be read.
 * @param {string} text
 * @returns {Edit[]}
 */
export function editsOf(text) {
  if (!text) return [];
  let edits;
  try {
    edits = JSON.parse(text);
  } catch {
    throw new Error("The edits in the address cannot be read: they are not JSON.");
  }
  const fields = ["kind", "cluster", "key", "value", "effect", "placement"];
  /** @param {any} e */
  const sound = (e) => e && typeof e === "object" && Object.hasOwn(KINDS, e.kind) && fields.every((f) => e[f] === undefined || typeof e[f] === "string");
  if (!Array.isArray(edits) || !edits.every(sound)) throw new Error("The edits in the address cannot be read: they are not a list of edits.");
  return edits;
}

/** @param {Edit[]} edits */
export const textOf = (edits) => (edits.length ? JSON.stringify(edits) : "");

/**
 * isComplete is false for an edit of a link that only begins one, such as a taint without a key.
 * @param {Edit} e
 */
export const isComplete = (e) => KINDS[e.kind].fields.every((field) => OPTIONAL.includes(field) || Boolean(e[/** @type {keyof Edit} */ (field)]));

const OPTIONAL = ["value", "number", "remove"];

/** @type {Object<string, {name: string, fields: string[], remove?: string, said: (e: Edit) => string}>} */
const KINDS = {
  drain: {
    name: "Drain a cluster", fields: ["cluster", "remove"], remove: "end the drain", said: (e) => (e.remove ? "End the drain of " : "Drain ") + e.cluster,
  },
  taint: {
    name: "Taint a cluster", fields: ["cluster", "key", "value", "effect", "remove"], remove: "remove this taint",
    said: (e) => (e.remove ? "Remove the taint " : "Taint ") + (e.remove ? "" : e.cluster + " with ") + e.key + (e.value ? "=" + e.value : "") + (e.effect ? ":" + e.effect : "") + (e.remove ? " from " + e.cluster : ""),
  },
  label: {
    name: "Change a label of a cluster", fields: ["cluster", "key", "value", "remove"], remove: "remove this label",
    said: (e) => (e.remove ? "Remove the label " + e.key + " from " + e.cluster : "Label " + e.cluster + " with " + e.key + "=" + (e.value || "")),
  },
  lose: {
    name: "Lose all clusters with a label", fields: ["key", "value"],
    said: (e) => "Lose all clusters with " + e.key + "=" + (e.value || "") + lost(e),
  },
  number: {
    name: "Change the number of clusters of a Placement", fields: ["placement", "number"],
    said: (e) => (typeof e.number === "number" ? e.placement + " wants " + plural(e.number, "cluster") : e.placement + " wants all clusters that qualify"),
  },
};

/** @param {Edit} e */
export const said = (e) => KINDS[e.kind].said(e);

/** lost says how many clusters have a label. @param {Edit} e */
function lost(e) {
  const clusters = store.fleet?.clusters || [];
  return clusters.length ? " (now " + plural(clusters.filter((c) => c.labels?.[e.key || ""] === (e.value || "")).length, "cluster") + ")" : "";
}

/**
 * editForm asks for an edit and adds it. It begins with one that is not complete, if there is one.
 * @param {Edit|undefined} begun
 * @param {(edit: Edit) => void} add
 */
export function editForm(begun, add) {
  const kind = make("select", "", ...Object.entries(KINDS).map(([value, { name }]) => new Option(name, value)));
  kind.value = begun?.kind || "drain";
  const fields = make("div", "fields");
  const submit = make("button", "", "Add");
  const form = make("form", "edit", make("label", "", "What changes", kind), fields, submit);
  /** @type {Edit} what was typed stays if the kind changes */
  let edit = { ...begun, kind: kind.value };
  const draw = () => fields.replaceChildren(...KINDS[kind.value].fields.map((name) => field(name, edit, kind.value)));
  kind.addEventListener("change", () => {
    edit = { ...edit, ...values(fields), kind: kind.value };
    draw();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add({ kind: kind.value, ...values(fields) });
  });
  draw();
  return form;
}

/** @param {HTMLElement} fields @returns {Partial<Edit>} */
function values(fields) {
  /** @type {Object<string, any>} */
  const edit = {};
  for (const e of /** @type {NodeListOf<HTMLInputElement|HTMLSelectElement>} */ (fields.querySelectorAll("[name]"))) {
    if (e instanceof HTMLInputElement && e.type === "checkbox") {
      if (e.checked) edit.remove = true;
    } else if (e.name === "number") edit.number = e.value === "" ? null : Number(e.value);
    else if (e.value.trim()) edit[e.name] = e.value.trim();
  }
  return edit;
}

/** @type {Object<string, string>} */
const LABELS = { cluster: "Cluster", key: "Key", value: "Value", effect: "Effect", placement: "Placement, NAMESPACE/NAME", number: "Number of clusters; empty for all that qualify" };

/**
 * @param {string} name
 * @param {Edit} edit
 * @param {string} kind
 */
function field(name, edit, kind) {
  if (name === "effect") {
    const select = make("select", "", ...["NoSelect", "PreferNoSelect", "NoSelectIfNew"].map((e) => new Option(e)));
    select.name = name;
    select.value = edit.effect || "NoSelect";
    return make("label", "", LABELS.effect, select);
  }
  const input = make("input", "");
  input.name = name;
  input.autocomplete = "off";
  if (name === "remove") {
    input.type = "checkbox";
    input.checked = Boolean(edit.remove);
    return make("label", "check", input, " " + KINDS[kind].remove);
  }
  if (name === "number") {
    input.type = "number";
    input.min = "0";
    input.max = "2147483647";
  } else {
    input.spellcheck = false;
    input.required = !OPTIONAL.includes(name);
  }
  const value = edit[/** @type {keyof Edit} */ (name)];
  input.value = value === undefined || value === null ? "" : String(value);
  return make("label", "", LABELS[name], input, suggestions(input, name));
}

/**
 * suggestions fills a list of names while somebody types.
 * @param {HTMLInputElement} input
 * @param {string} name
 */
function suggestions(input, name) {
  const list = make("datalist", "");
  list.id = "edit-" + name;
  if (name === "number") return list;
  input.setAttribute("list", list.id);
  const fill = () => {
    const typed = input.value.toLowerCase();
    const found = new Set();
    for (const value of known(name, input)) {
      if (value.toLowerCase().includes(typed)) found.add(value);
      if (found.size >= SUGGESTED) break;
    }
    list.replaceChildren(...[...found].map((value) => new Option("", value)));
  };
  input.addEventListener("input", fill);
  input.addEventListener("focus", fill);
  return list;
}

/** known are the values that a field can have. @param {string} name @param {HTMLInputElement} input @returns {Iterable<string>} */
function* known(name, input) {
  const clusters = store.fleet?.clusters || [];
  if (name === "cluster") for (const c of clusters) yield c.name;
  if (name === "placement") for (const p of store.fleet?.placements || []) yield p.placement;
  if (name === "key") for (const c of clusters) yield* Object.keys(c.labels || {});
  if (name === "value") {
    const key = /** @type {HTMLInputElement|null} */ (input.form?.elements.namedItem("key"))?.value || "";
    for (const c of clusters) if (c.labels?.[key]) yield c.labels[key];
  }
}

/**
 * editList has the edits in words, each with a button that removes it.
 * @param {Edit[]} edits
 */
export function editList(edits) {
  return make("ol", "edits", ...edits.map((edit, i) => {
    const remove = button("Remove", () => route.go({ edits: textOf(edits.filter((_, j) => j !== i)) }));
    remove.setAttribute("aria-label", "Remove edit " + (i + 1));
    return make("li", "", make("span", "", said(edit)), " ", remove);
  }));
}
