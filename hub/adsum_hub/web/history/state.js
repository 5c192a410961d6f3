// @ts-check
/** The search of the history: what is asked for, also by the address, and what was found. */
import { batch, computed, effect, signal } from "../vendor/signals-core.js";
import { askHub, listIn } from "../core/api.js";
import { viewOf } from "../core/routes.js";
import { keepInAddress } from "../list/state.js";

/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { SessionView } from "../wire.js" */

/** Somebody types: as long as the next letter may come. */
const PAUSE_MS = 250;
const PAGE = 50;
const LONGEST = 200;

/** What the search box holds, and of which machine and project. Stays when the page is left, as what was found does. */
export const wanted = signal("");

export const onHost = signal("");

export const inProject = signal("");

export const seeking = computed(() => Boolean(wanted.value.trim() || onHost.value || inProject.value));
/** In the address they have names that the live list's filters have not. @type {Record<string, Signal<string>>} */
const IN_ADDRESS = { find: wanted, on: onHost, in: inProject };

/**
 * sought: the words that `sessions` answer, asked: the whole question. total: how many there are. notes: of
 * the hub, for people. While `loading` or `failed`, what was found before. why: for people.
 * @typedef {{phase: "loading" | "shown" | "failed", sought: string, asked: string, sessions: SessionView[],
 *   total: number, notes: string[], why?: string}} Found
 */
export const found = signal(
  /** @type {Found} */ ({ phase: "loading", sought: "", asked: "", sessions: [], total: 0, notes: [] }),
);

/** Of all that was found since the page was opened, to choose from. @type {Set<string>} */
export const projects = new Set();
/** @type {AbortController | undefined} */
let asking;

/** The whole question, as it goes to the hub. */
function question() {
  const said = new URLSearchParams({ q: wanted.peek().trim() });
  if (onHost.peek()) said.set("host", onHost.peek());
  if (inProject.peek()) said.set("project", inProject.peek());
  return said.toString();
}

/** Looks for what is wanted, from the first. */
export function search() {
  return fetchPage(question(), []);
}

/** The next page of what was found. */
export function more() {
  const { asked, sessions } = found.peek();
  return fetchPage(asked, sessions);
}

/** Ask again for what could not be had. */
export function askAgain() {
  const { asked, sessions } = found.peek();
  return asked === question() && sessions.length > 0 ? more() : search();
}

/** @param {string} asked @param {SessionView[]} held those that the page follows */
async function fetchPage(asked, held) {
  asking?.abort();
  const stopped = (asking = new AbortController()).signal;
  const sought = new URLSearchParams(asked).get("q") ?? "";
  const before = found.peek();
  found.value = { ...before, phase: "loading" };
  const { body, why } = await askHub(`/api/v1/history?${asked}&limit=${PAGE}&offset=${held.length}`, stopped);
  if (stopped.aborted) return;
  const sessions = listIn(body, "sessions");
  if (!sessions) {
    found.value = { ...before, phase: "failed", why: why ?? "The hub's answer was not a list." };
    return;
  }
  for (const { project } of sessions) if (project) projects.add(project);
  // One that ended meanwhile moves all others on by one place.
  const known = new Set(held.map(({ id }) => id));
  const all = [...held, ...sessions.filter(({ id }) => !known.has(id))];
  found.value = {
    phase: "shown",
    sought,
    asked,
    sessions: all,
    total: body.total ?? all.length,
    notes: listIn(body, "notes") ?? [],
  };
}

/** What the address says, where it says anything. */
function follow() {
  const said = new URLSearchParams(location.search);
  if (viewOf(location.pathname) !== "history" || !Object.keys(IN_ADDRESS).some((name) => said.has(name))) return;
  batch(() => {
    for (const [name, kept] of Object.entries(IN_ADDRESS)) kept.value = (said.get(name) ?? "").slice(0, LONGEST);
  });
}

export function clearSearch() {
  batch(() => {
    for (const kept of Object.values(IN_ADDRESS)) kept.value = "";
  });
}

/** @returns {() => void} to be called when nobody looks any more */
export function watchSearch() {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let started = false;
  follow();
  const end = effect(() => {
    const own = Object.fromEntries(Object.entries(IN_ADDRESS).map(([name, kept]) => [name, kept.value]));
    // While a session lies over it, the address is that one's.
    if (viewOf(location.pathname) === "history") keepInAddress(own);
    clearTimeout(timer);
    if (started) timer = setTimeout(search, PAUSE_MS);
    else search();
    started = true;
  });
  addEventListener("popstate", follow);
  return () => {
    end();
    clearTimeout(timer);
    asking?.abort();
    removeEventListener("popstate", follow);
  };
}
