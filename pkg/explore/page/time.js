// The time of a recording: a slider over it, the changes as marks, and steps from change to change.
/** @import {Tick, Timeline} from "./types.js" */
import { get, session } from "./api.js";
import { clock, make, plural, visible } from "./dom.js";
import { button, failure, placementLink } from "./parts.js";
import { route } from "./route.js";

/** POLL is the time between two questions while the recording is read, AGAIN the one until it may have more, FAILED the one after a failure. */
const POLL = 500, AGAIN = 60_000, FAILED = 5000;
/** DRAG is how long the slider must rest before the state is asked for. */
const DRAG = 300;
const AT = "at-";

/** @type {Timeline} */
let line = { done: false, ticks: [] };
/** pushed is true if the slider is being dragged, and has made an entry of the history. */
let pushed = false;
let due = 0;

const slider = make("input", "slider");
const marks = document.createElementNS("http://www.w3.org/2000/svg", "svg");
const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
const shownTime = make("output", "shown");
const cause = make("p", "cause");
const earlier = button("◀", () => step(-1)), later = button("▶", () => step(1)), now = button("Now", () => route.go({ world: "" }));

/** timeBar returns the element below the header. */
export function timeBar() {
  const bar = make("section", "time", make("p", "quiet", "Reading the recording…"));
  bar.setAttribute("aria-label", "Time");
  label(earlier, "The change before");
  label(later, "The next change");
  label(now, "Leave the recording and show the hub as it is now");
  Object.assign(slider, { type: "range", min: "0", step: "1" });
  slider.setAttribute("aria-label", "Time of the recording");
  slider.addEventListener("input", dragged);
  slider.addEventListener("change", dropped);
  slider.addEventListener("keydown", keyed);
  marks.setAttribute("aria-hidden", "true");
  marks.setAttribute("preserveAspectRatio", "none");
  marks.setAttribute("viewBox", "0 0 1000 20");
  marks.classList.add("marks");
  marks.append(path);
  cause.setAttribute("aria-live", "polite");
  read(bar);
  route.on(draw);
  return bar;
}

/** @param {HTMLElement} element @param {string} text */
function label(element, text) {
  element.title = text;
  element.setAttribute("aria-label", text);
}

/** read asks for the times of the recording, and while the hub is live, from time to time for later ones. @param {HTMLElement} bar */
async function read(bar) {
  let answer;
  try {
    answer = /** @type {Timeline} */ (await get("api/time"));
  } catch (error) {
    if (!slider.isConnected) bar.replaceChildren(failure("The recording cannot be read: ", error));
    setTimeout(read, FAILED, bar);
    return;
  }
  if (!answer.done) {
    setTimeout(read, POLL, bar);
    return;
  }
  line = answer;
  if (!line.first || !line.last) {
    bar.replaceChildren(line.error ? failure("The recording cannot be read: ", line.error) : make("p", "quiet", "The recording is empty."));
  } else if (!slider.isConnected) {
    bar.replaceChildren(earlier, make("div", "track", slider, marks), later, shownTime, session.live ? now : "", cause);
    if (line.error) bar.append(failure("The recording is read in part: ", line.error));
    if (!session.live && !route.get().world) route.replace({ world: AT + line.last });
  }
  draw();
  if (session.live) setTimeout(read, AGAIN, bar);
}

const ticks = () => line.ticks || [];
/** @param {string|undefined} time */
const ms = (time) => (time ? new Date(time).getTime() : 0);
const first = () => ms(line.first);
const length = () => Math.max(1, ms(line.last) - first());
/** shown is the time that the route names; undefined for now. */
const shown = () => (route.get().world.startsWith(AT) ? route.get().world.slice(AT.length) : undefined);

/** tickAt is the number of the last tick until a time; -1 if there is none. @param {string} time */
function tickAt(time) {
  const exact = ticks().findIndex((t) => t.time === time);
  return exact >= 0 ? exact : ticks().findLastIndex((t) => ms(t.time) <= ms(time));
}

/** draw moves the slider to the time that the route names. */
function draw() {
  if (!slider.isConnected) return;
  const time = shown();
  slider.max = String(length());
  if (!due) say(time, time === undefined ? length() : ms(time) - first());
  if (!due) slider.value = String(time === undefined ? length() : ms(time) - first());
  now.disabled = route.get().world === "";
  const most = Math.max(1, ...ticks().map((t) => t.changes));
  path.setAttribute("d", ticks().map((t) => {
    const x = ((ms(t.time) - first()) / length()) * 1000, height = 5 + 15 * Math.sqrt(t.changes / most);
    return "M" + x.toFixed(1) + " 20V" + (20 - height).toFixed(1);
  }).join(""));
}

/**
 * say writes the time and what led to it.
 * @param {string|undefined} time
 * @param {number} position
 */
function say(time, position) {
  const at = new Date(first() + position);
  const said = time === undefined && session.live ? "Now" : clock(at);
  shownTime.textContent = said;
  shownTime.title = time === undefined && session.live ? "" : at.toISOString();
  slider.setAttribute("aria-valuetext", said);
  const i = time === undefined ? ticks().length - 1 : tickAt(time);
  earlier.disabled = ticks().length === 0 || (time !== undefined && previous(time) < 0);
  later.disabled = time === undefined || next(time) < 0;
  cause.replaceChildren(...(i < 0 ? [plural(ticks().length, "change") + " in the recording, none until this time."] : told(ticks()[i], time)));
}

/**
 * told says what a tick is.
 * @param {Tick} tick
 * @param {string|undefined} time that is shown
 * @returns {(string|Node)[]}
 */
function told(tick, time) {
  const what = "+" + tick.added + " −" + tick.removed + (tick.cause ? ". " + tick.cause : "");
  const before = tick.time === time ? "" : (time === undefined ? "The newest change, " : "The change before this, ") + clock(tick.time) + ": ";
  return [before, tick.placement ? placementLink(tick.placement) : plural(tick.changes, "change"), visible(": " + what)];
}

/** @param {string} time */
function previous(time) {
  const i = tickAt(time);
  return i >= 0 && (ticks()[i].time === time || ms(ticks()[i].time) === ms(time)) ? i - 1 : i;
}

/** @param {string} time */
function next(time) {
  const i = tickAt(time) + 1;
  return i < ticks().length ? i : -1;
}

/** step goes to the change before or after. @param {number} by */
function step(by) {
  const time = shown();
  const i = time === undefined ? (by < 0 ? ticks().length - 1 : -1) : by < 0 ? previous(time) : next(time);
  if (i >= 0) route.go({ world: AT + ticks()[i].time });
}

/** worldAt is that of a position of the slider: the exact time of a change near it, else that of the position. */
function worldAt() {
  const position = Number(slider.value), near = length() / 400;
  const tick = ticks().find((t) => Math.abs(ms(t.time) - first() - position) <= near && Math.abs(ms(t.time) - first() - position) < 1000);
  if (tick) return AT + tick.time;
  if (position <= 0) return AT + line.first;
  if (position >= length()) return session.live ? "" : AT + line.last;
  return AT + new Date(first() + position).toISOString();
}

function dragged() {
  clearTimeout(due);
  const world = worldAt();
  say(world ? world.slice(AT.length) : undefined, Number(slider.value));
  due = setTimeout(() => {
    due = 0;
    if (pushed) route.replace({ world });
    else route.go({ world });
    pushed = true;
  }, DRAG);
}

function dropped() {
  const world = worldAt();
  clearTimeout(due);
  due = 0;
  if (pushed) route.replace({ world });
  else route.go({ world });
  pushed = false;
}

/** keyed has the arrows go from change to change. @param {KeyboardEvent} event */
function keyed(event) {
  const by = /** @type {Object<string, number>} */ ({ ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 })[event.key];
  if (!by) return;
  event.preventDefault();
  step(by);
}
