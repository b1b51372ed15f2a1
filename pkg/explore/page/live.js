// Changes as they happen: the server-sent events of the hub. A stream that ends, or is silent, is
// opened again, and meanwhile the page says that what it shows is old.
/** @import {Update} from "./types.js" */
import { address, loadSession, session } from "./api.js";
import { route } from "./route.js";
import { apply, store } from "./store.js";

/** The server sends something each 15 s. */
const SILENCE = 45_000, FIRST_WAIT = 1000, LONGEST_WAIT = 30_000;

/** @type {EventSource|null} */
let stream = null;
/** @type {number|undefined} */
let retry;
/** @type {number|undefined} */
let silence;
let wait = FIRST_WAIT, failures = 0;

/** follow opens the stream of the fleet that is shown, and ends the one before. A state in the past, or of a what-if, has none. */
export function follow() {
  stop();
  if (!session.live || store.world !== "" || !store.fleet) {
    heard();
    return;
  }
  const mine = stream = new EventSource(address("api/events", { since: store.fleet.version }));
  heardSoon();
  for (const kind of ["open", "alive"]) mine.addEventListener(kind, () => mine === stream && heard());
  mine.addEventListener("update", (event) => {
    if (mine !== stream) return;
    heard();
    apply(/** @type {Update} */ (JSON.parse(event.data)));
  });
  mine.addEventListener("reload", () => mine === stream && reload());
  mine.addEventListener("error", () => mine === stream && lose());
}

/** stop ends the stream. */
export function stop() {
  stream?.close();
  stream = null;
  clearTimeout(retry);
  clearTimeout(silence);
}

/** again tries at once what would be tried later. */
export function again() {
  wait = FIRST_WAIT;
  reload();
}

function heardSoon() {
  clearTimeout(silence);
  silence = setTimeout(lose, SILENCE);
}

function heard() {
  if (stream) heardSoon();
  wait = FIRST_WAIT;
  failures = 0;
  if (!store.lost) return;
  store.lost = null;
  store.tell({ connection: true });
  store.regained();
}

/** reload reads the whole fleet again: the stream has no changes since the version that is shown. */
async function reload() {
  stop();
  const { world } = route.get();
  await store.open(world);
  if (!store.error) follow();
  else if (world === "") lose(store.error);
}

/**
 * lose says that the connection is lost, and why, and tries again later. It says nothing of a
 * stream that can be opened again at once: some proxies end each after a while.
 * @param {unknown} [why]
 */
export function lose(why) {
  stop();
  if (typeof why !== "string" && failures++ === 0) {
    retry = setTimeout(resume, 200);
    return;
  }
  const since = store.lost?.since || Date.now();
  store.lost = { problem: typeof why === "string" ? why : store.lost?.problem || "The stream of changes has ended.", since, next: Date.now() + wait };
  store.tell({ connection: true });
  retry = setTimeout(resume, wait);
  wait = Math.min(2 * wait, LONGEST_WAIT);
}

/** resume opens the stream again if the server answers. Its answer says more than the end of a stream. */
async function resume() {
  try {
    await loadSession();
  } catch (error) {
    lose(/** @type {Error} */ (error).message);
    return;
  }
  if (session.noStream) {
    lose(session.noStream);
    return;
  }
  if (store.fleet && store.world === "" && !store.error) follow();
  else reload();
}
