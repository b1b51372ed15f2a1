// Elements. What comes from the hub enters the document here, as text only, with its control
// characters visible.
import { STATES } from "./states.js";

/** @typedef {Node|string|null|undefined|false|0} Content */

/**
 * visible shows control characters as \uXXXX: those of direction, or without width, would make a
 * name look like another.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => (c === "\n" ? c : "\\u" + (c.codePointAt(0) ?? 0).toString(16).padStart(4, "0")));
}

/**
 * make returns an element. Strings become text; null, undefined, false and 0 are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} className
 * @param {...Content} content
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, className, ...content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const part of content) {
    if (part) element.append(typeof part === "string" ? visible(part) : part);
  }
  return element;
}

/**
 * link returns a link to another state of the page; take href from route.href.
 * @param {string} href
 * @param {string} className
 * @param {...Content} content
 */
export function link(href, className, ...content) {
  const a = make("a", className, ...content);
  a.href = href;
  return a;
}

/**
 * byId returns an element of index.html.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error("index.html has no " + id);
  return element;
}

/**
 * copyButton returns a button that copies a text and says so. label names what is copied.
 * @param {string} text
 * @param {string} label
 */
export function copyButton(text, label) {
  const button = make("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", "Copy " + visible(label));
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Not copied";
    button.setAttribute("aria-label", button.textContent + ": " + visible(label));
    setTimeout(() => {
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy " + visible(label));
    }, 2000);
  });
  return button;
}

/**
 * copy puts a text on the clipboard, also where the page is not served with TLS.
 * @param {string} text
 */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", "offscreen");
    area.value = text;
    document.body.append(area);
    const focused = /** @type {HTMLElement|null} */ (document.activeElement);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    return done;
  }
}

/**
 * code returns a text to copy, such as a command.
 * @param {string} text
 */
export function code(text) {
  return make("div", "code", make("pre", "", text), copyButton(text, "the text"));
}

/**
 * ago says how long ago a time is: "3 s ago"; empty without a time.
 * @param {string|number|undefined|null} time
 */
export function ago(time) {
  if (!time) return "";
  const seconds = Math.round((Date.now() - new Date(time).getTime()) / 1000);
  const [s, before, after] = seconds < 0 ? [-seconds, "in ", ""] : [seconds, "", " ago"];
  const [count, unit] = s < 90 ? [s, "s"] : s < 90 * 60 ? [s / 60, "min"] : s < 36 * 3600 ? [s / 3600, "h"] : [s / 86400, "d"];
  return before + Math.round(count) + " " + unit + after;
}

/**
 * clock is a time with its zone.
 * @param {string|number|Date} time
 */
export function clock(time) {
  return new Date(time).toLocaleString(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
}

/**
 * since returns the element of a time, "3 s ago", with the time itself as title. The page keeps it
 * up to date.
 * @param {string|undefined|null} time
 */
export function since(time) {
  const element = make("time", "ago", ago(time));
  if (time) {
    element.dateTime = time;
    element.title = clock(time) + " (" + new Date(time).toISOString().replace(/\.\d+Z/, "Z") + ")";
  }
  return element;
}

/** keepTimes writes the times of since anew each second. */
export function keepTimes() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time.ago")) {
      const text = ago(element.getAttribute("datetime"));
      if (element.textContent !== text) element.textContent = text;
    }
  }, 1000);
}

/**
 * stateMark shows the state of a Placement: sign, colour and word.
 * @param {string} state
 */
export function stateMark(state) {
  const known = state in STATES ? state : "undecided";
  const sign = make("span", "sign", STATES[known].sign);
  sign.setAttribute("aria-hidden", "true");
  return make("span", "state s-" + known, sign, state);
}

/**
 * table returns a table. Cells are strings or elements.
 * @param {string[]} headings
 * @param {Content[][]} rows
 */
export function table(headings, rows) {
  const head = make("tr", "", ...headings.map((heading) => {
    const cell = make("th", "", heading);
    cell.scope = "col";
    return cell;
  }));
  const body = rows.map((row) => make("tr", "", ...row.map((cell) => make("td", "", cell))));
  return make("div", "scroll", make("table", "", make("thead", "", head), make("tbody", "", ...body)));
}

/**
 * shorten cuts the middle of a long name.
 * @param {string} text
 * @param {number} most
 */
export function shorten(text, most) {
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return text.slice(0, most - 1 - end) + "…" + text.slice(text.length - end);
}

/**
 * plural says a number with its noun: "1 cluster", "2 clusters".
 * @param {number} count
 * @param {string} noun
 */
export function plural(count, noun) {
  return count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");
}
