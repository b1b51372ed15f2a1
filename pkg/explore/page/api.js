// Requests to the server. All addresses are relative, so that the page works under any prefix.
/** @import {Session} from "./types.js" */

/**
 * session is what the server says about the viewer.
 * @type {Session}
 */
export const session = { csrf: "", live: true, recording: false };

let namespace = "";

/**
 * setNamespace has every request ask for one namespace; "" for what the viewer sees by default.
 * @param {string} name
 */
export function setNamespace(name) {
  namespace = name;
}

/** loadSession reads the session, also again after the server has restarted. */
export async function loadSession() {
  Object.assign(session, { user: "", resilience: "", noStream: "" }, await get("api/session"));
}

/**
 * address returns the address of a request.
 * @param {string} path
 * @param {Object<string, string|number|string[]|undefined>} [parameters] those that are empty are left out
 */
export function address(path, parameters) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...parameters, ns: namespace })) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "") query.append(key, String(one));
    }
  }
  return query.size ? path + "?" + query : path;
}

/**
 * get reads an answer. It throws an Error with what the server says.
 * @param {string} path
 * @param {Object<string, string|number|string[]|undefined>} [parameters]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function get(path, parameters, signal) {
  return ask(address(path, parameters), { signal });
}

/**
 * post sends a body as JSON and returns the answer.
 * @param {string} path
 * @param {unknown} body
 * @param {Object<string, string|number|string[]|undefined>} [parameters]
 * @returns {Promise<any>}
 */
export function post(path, body, parameters) {
  return ask(address(path, parameters), {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Berth-CSRF": session.csrf },
  });
}

/** Refused is the error of an answer; any other error means that there was none. */
export class Refused extends Error {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} url
 * @param {RequestInit} options
 */
async function ask(url, options) {
  let response, text;
  try {
    response = await fetch(url, options);
    text = await response.text();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Error("berth explore does not answer. Is it still running?", { cause: error });
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Refused(text.trim() || response.statusText || "status " + response.status, response.status);
  }
  if (!response.ok) throw new Refused(answer.error || "status " + response.status, response.status);
  return answer;
}
