// @ts-check
/** How many sessions each filter would leave, and views that were saved: name, view, filters and order. */
import { batch, effect, signal, untracked } from "../vendor/signals-core.js";
import {
  clearFilters, FACETS, filters, filtersIn, LONGEST_NAME, matches, OFFERED, searchOf, valueName, valueOf,
} from "../core/filters.js";
import { plain, record } from "../core/format.js";
import { go } from "../core/navigation.js";
import { allSessions, known } from "../core/roster.js";
import { isList, routeOf, viewOf } from "../core/routes.js";
import { sortIn, withSort } from "../list/state.js";

/** @import { Facet, Filters } from "../core/filters.js" */
/** @import { SessionView } from "../wire.js" */

/** Figures that change with every signal cannot be read, and cost what the list needs. */
const EVERY_MS = 1000;

/** @typedef {{counts: Record<Facet, Map<string, number>>, left: number}} Tally */

/**
 * Each value of a facet counts the sessions that all the other facets leave, as it would add those.
 * @param {SessionView[]} sessions @param {Filters} wanted @returns {Tally}
 */
export function tally(sessions, wanted) {
  const counts = /** @type {Tally["counts"]} */ (Object.fromEntries(FACETS.map((facet) => [facet, new Map()])));
  const words = wanted.q.trim();
  let left = 0;
  for (const session of sessions) {
    const missed = FACETS.filter(
      (facet) => wanted[facet].length > 0 && !wanted[facet].includes(valueOf(session, facet) ?? ""),
    );
    const near = missed.length < 2 && (!words || matches(session, words));
    if (near && missed.length === 0) left += 1;
    for (const facet of FACETS) {
      const value = valueOf(session, facet);
      if (!value) continue;
      const counted = near && (missed.length === 0 || missed[0] === facet) ? 1 : 0;
      counts[facet].set(value, (counts[facet].get(value) ?? 0) + counted);
    }
  }
  return { counts, left };
}

export const tallied = signal(tally([], filters.peek()));

function count() {
  if (document.visibilityState === "visible") tallied.value = tally(allSessions(), filters.peek());
}

/** Counts as the filters change, and every second. @returns {() => void} to be called when nobody looks any more */
export function watchTally() {
  const end = effect(() => {
    void filters.value;
    if (known.value) untracked(count);
  });
  const timer = setInterval(count, EVERY_MS);
  return () => {
    end();
    clearInterval(timer);
  };
}

const KEY = "adsum.views";

export const LONGEST_VIEW_NAME = 60;
const MOST = 50;

/**
 * name: no two have the same. search: of the address, with its question mark.
 * @typedef {{name: string, path: string, search: string}} SavedView
 */

export const saved = signal(/** @type {SavedView[]} */ ([]));

/** What is wrong with what is kept, for people. */
export const savedTrouble = signal("");

/** @param {unknown} value @returns {SavedView | undefined} */
function viewIn(value) {
  const { name, path, search } = record(value);
  if (typeof name !== "string" || typeof search !== "string" || typeof path !== "string" || !isList(viewOf(path)))
    return undefined;
  const known = named(name);
  const by = viewOf(path) === "list" ? sortIn(search) : undefined;
  return known ? { name: known, path, search: withSort(searchOf(filtersIn(search)), by) } : undefined;
}

/** @param {string} name */
function named(name) {
  return plain(name.trim(), LONGEST_VIEW_NAME).trim();
}

function read() {
  savedTrouble.value = "";
  saved.value = [];
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(kept)) throw new SyntaxError("no list");
    const views = kept
      .slice(0, MOST)
      .map(viewIn)
      .filter((view) => view !== undefined);
    saved.value = views.filter(({ name }, i) => views.findIndex((each) => each.name === name) === i);
    const lost = kept.length - saved.value.length;
    const are = lost === 1 ? "is" : "are";
    if (lost > 0) savedTrouble.value = `${lost} of ${kept.length} saved views could not be read and ${are} left out.`;
  } catch (error) {
    const unreadable = error instanceof SyntaxError;
    savedTrouble.value = unreadable
      ? "The saved views in this browser could not be read. Saving a view starts a new list."
      : "This browser stores nothing for this page, so saved views are lost when it is closed.";
  }
}

/** @param {SavedView[]} views */
function keep(views) {
  saved.value = views;
  savedTrouble.value = "";
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    savedTrouble.value = "This browser stores nothing more for this page, so this is lost when it is closed.";
  }
}

/**
 * A view of that name is replaced.
 * @param {string} name
 * @param {string} path
 * @param {string} search
 * @returns {string} why not, or nothing
 */
export function saveView(name, path, search) {
  const view = viewIn({ name, path, search });
  if (!view) return "Enter a name first.";
  const at = saved.value.findIndex((each) => each.name === view.name);
  if (at < 0 && saved.value.length >= MOST) return `There are ${MOST} views already. Delete one in the settings first.`;
  keep(at < 0 ? [...saved.value, view] : saved.value.with(at, view));
  return "";
}

/** @param {string} name @param {string} wanted @returns {string} why not, or nothing */
export function renameView(name, wanted) {
  const fresh = named(wanted);
  if (!fresh) return "A view needs a name.";
  if (fresh !== name && saved.value.some((each) => each.name === fresh))
    return `A view named “${fresh}” exists already.`;
  keep(saved.value.map((each) => (each.name === name ? { ...each, name: fresh } : each)));
  return "";
}

/** @param {string} name */
export function deleteView(name) {
  keep(saved.value.filter((each) => each.name !== name));
}

/** @param {string} name @param {-1 | 1} by up or down by one */
export function moveView(name, by) {
  const at = saved.value.findIndex((each) => each.name === name);
  const other = saved.value[at + by];
  if (at >= 0 && other) keep(saved.value.with(at, other).with(at + by, saved.value[at]));
}

/** A view without filters means it: those of the moment go. @param {SavedView} view */
export function openView({ path, search }) {
  batch(() => {
    if (!search) clearFilters();
    go(path + search);
  });
}

read();

addEventListener("storage", ({ key }) => {
  if (key === KEY || key === null) read();
});

/** What a view holds, in words. @param {SavedView} saved */
export function holdsOf({ path, search }) {
  const by = sortIn(search);
  const order = by && `by ${by.column.title.toLowerCase()} ${by.down ? "downwards" : "upwards"}`;
  return [routeOf(viewOf(path)).title, inWords(filtersIn(search)), order].filter(Boolean).join(" · ");
}

/** Filters in a few words, as a name for them. @param {Filters} wanted */
export function inWords(wanted) {
  const parts = OFFERED.flatMap((facet) => wanted[facet].map((value) => valueName(facet, value)));
  const words = wanted.q.trim();
  return [...parts, ...(words ? [`“${plain(words, LONGEST_NAME)}”`] : [])].join(", ");
}
