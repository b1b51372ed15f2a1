// Which domains Placements can lose: berth explore --domains. It is computed in the background.
/** @import {Resilience} from "./types.js" */
import { get, session } from "./api.js";
import { store } from "./store.js";

/** @type {Resilience} */
let known = { by: "", done: true };

/** AGAIN is the time between two questions once it is known: the server computes it once a minute. */
const AGAIN = 60000;

/** CRITICAL marks a Placement that is not satisfied without one of the domains. */
export const CRITICAL = "◐";

/**
 * isCritical says whether the state now cannot lose a domain.
 * @param {string} placement
 */
export const isCritical = (placement) => !store.world && Boolean(known.placements?.[placement]?.critical);

/**
 * loadResilience asks again and again, and calls done when it is known.
 * @param {() => void} done
 */
export async function loadResilience(done) {
  if (!session.resilience) return;
  try {
    known = await get("api/resilience");
    if (known.done) done();
  } catch {
    // The details of a Placement say why.
    known = { by: known.by, done: true };
  }
  setTimeout(() => loadResilience(done), known.done ? AGAIN : 1000);
}
