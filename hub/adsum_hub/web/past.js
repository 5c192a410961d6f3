// @ts-check
/** Sessions that are over: the search of the open panel, and one of them by its id. */
import { effect, signal } from "./vendor/signals-core.js";
import { askHub, listIn } from "./fetching.js";

/** @import { SessionView } from "./wire.js" */

/** Somebody types: as long as the next letter may come. */
const PAUSE_MS = 250;
const PAGE = 50;

/** What the search box holds. Stays when the panel closes, as what was found does. */
export const wanted = signal("");

/**
 * sought: the words that `sessions` answer. total: how many there are. While `loading` or `failed`,
 * what was found before. why: for people.
 * @typedef {{phase: "loading" | "shown" | "failed", sought: string, sessions: SessionView[], total: number, why?: string}} Found
 */
export const found = signal(/** @type {Found} */ ({ phase: "loading", sought: "", sessions: [], total: 0 }));

/** @type {AbortController | undefined} */
let asking;

/** Looks for what is wanted, from the first. */
export function search() {
  return fetchPage(wanted.peek().trim(), []);
}

/** The next page of what was found. */
export function more() {
  const { sought, sessions } = found.peek();
  return fetchPage(sought, sessions);
}

/** Ask again for what could not be had. */
export function askAgain() {
  const { sought, sessions } = found.peek();
  return sought === wanted.peek().trim() && sessions.length > 0 ? more() : search();
}

/** @param {string} sought @param {SessionView[]} held those that the page follows */
async function fetchPage(sought, held) {
  asking?.abort();
  const stopped = (asking = new AbortController()).signal;
  const before = found.peek();
  found.value = { ...before, phase: "loading" };
  const { body, why } = await askHub(`/api/v1/history?q=${encodeURIComponent(sought)}&limit=${PAGE}&offset=${held.length}`, stopped);
  if (stopped.aborted) return;
  const sessions = listIn(body, "sessions");
  if (!sessions) {
    found.value = { ...before, phase: "failed", why: why ?? "The hub answered something else than a list." };
    return;
  }
  // One that ended meanwhile moves all others on by one place.
  const known = new Set(held.map(({ id }) => id));
  found.value = { phase: "shown", sought, sessions: [...held, ...sessions.filter(({ id }) => !known.has(id))], total: body.total ?? sessions.length };
}

/** @returns {() => void} to be called when nobody looks any more */
export function watchSearch() {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let started = false;
  const end = effect(() => {
    void wanted.value;
    clearTimeout(timer);
    if (started) timer = setTimeout(search, PAUSE_MS);
    else search();
    started = true;
  });
  return () => {
    end();
    clearTimeout(timer);
    asking?.abort();
  };
}

/** @typedef {{phase: "loading" | "shown" | "left" | "failed", session?: SessionView, why?: string}} Past */

/** @param {string} id @param {AbortSignal} stopped @returns {Promise<Past>} left: the hub does not know it either */
export async function fetchSession(id, stopped) {
  const { body, status, why } = await askHub(`/api/v1/sessions/${encodeURIComponent(id)}`, stopped);
  if (status === 404) return { phase: "left" };
  if (why) return { phase: "failed", why };
  return body?.id === id && body.state ? { phase: "shown", session: body } : { phase: "failed", why: "The hub answered something else than a session." };
}
