// @ts-check
/** Requests to the hub's REST API. What goes wrong comes back in words for people. */
import { signal } from "../vendor/signals-core.js";

const PATIENCE_MS = 10_000;
/** What changes something may wait for a service elsewhere, such as one that takes notifications. */
const SENDING_MS = 30_000;
const NOT_IN = 401;

/**
 * status: 0 if there was no answer. body: as the hub sent it, unchecked.
 * @typedef {{body: any, why?: undefined, status: number} | {body?: undefined, why: string, status: number}} Answer
 */
/**
 * csrf: goes with what changes something; empty where it is not needed. sign_in: false where nobody has to.
 * demo: all of it is made up.
 * @typedef {{name: string, role: "viewer" | "operator" | "admin", csrf: string, sign_in: boolean, demo?: boolean,
 *   hosts?: string[], decides?: boolean}} Me
 */

/** Who uses this browser, once the hub was asked: see `learnMe`. */
export const me = signal(/** @type {Me | undefined} */ (undefined));

/** @param {string} path @param {AbortSignal} stopped @returns {Promise<Answer>} */
export function askHub(path, stopped) {
  return answered(fetch(path, { signal: AbortSignal.any([stopped, AbortSignal.timeout(PATIENCE_MS)]) }));
}

/**
 * @param {"POST" | "PUT" | "PATCH" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<Answer>}
 */
export async function sendToHub(method, path, body) {
  // Asked each time: in another tab somebody may have signed in anew, and the old proof is worth nothing.
  const { why, status } = await fetchMe();
  if (why !== undefined) return { why, status };
  const headers = { "content-type": "application/json", "x-csrf-token": me.value?.csrf ?? "" };
  return answered(
    fetch(path, { method, headers, body: JSON.stringify(body ?? {}), signal: AbortSignal.timeout(SENDING_MS) }),
  );
}

/** Fills `me`. @param {AbortSignal} [stopped] @returns {Promise<Answer>} */
export async function fetchMe(stopped = new AbortController().signal) {
  const answer = await askHub("/api/v1/me", stopped);
  if (answer.why === undefined) me.value = answer.body;
  return answer;
}

/** Whether the reader signs out, so that nothing has to be explained. */
let leaving = false;

/** @param {boolean} so */
export function signingOut(so) {
  leaving = so;
}

/** To the page that signs in, which says why, and back here after. */
export function toLogin() {
  if (location.pathname === "/login") return;
  const here = location.pathname + location.search + location.hash;
  location.replace(`/login?${leaving ? "out" : "over"}${here === "/" ? "" : `&next=${encodeURIComponent(here)}`}`);
}

/** @param {Promise<Response>} asked @returns {Promise<Answer>} */
async function answered(asked) {
  let status = 0;
  try {
    const answer = await asked;
    status = answer.status;
    if (status === NOT_IN) toLogin();
    if (answer.ok) return { status, body: await answer.json() };
    const said = await answer.json().catch(() => ({}));
    return {
      status,
      why: said?.error ? `${said.error} ${said.next ?? ""}`.trim() : `The hub answered with status ${status}.`,
    };
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    if (name === "TimeoutError") return { status, why: "The hub took too long to answer." };
    return {
      status,
      why: name === "SyntaxError" ? "The hub's answer could not be read." : "The hub could not be reached.",
    };
  }
}

/**
 * A list in an answer, or nothing if it is no such answer.
 * @param {any} body
 * @param {string} name
 * @returns {any[] | undefined}
 */
export function listIn(body, name) {
  const list = body?.[name];
  return Array.isArray(list) ? list : undefined;
}
