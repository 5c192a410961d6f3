// @ts-check
/** Saved views: a name, a view, its filters and the order of the list; kept in this browser alone. */
import { batch, signal } from "./vendor/signals-core.js";
import { go } from "./address.js";
import { plain, record } from "./asks.js";
import { clearFilters, filtersIn, searchOf } from "./filters.js";
import { sortIn, withSort } from "./list_order.js";

const KEY = "adsum.views";
export const LONGEST_NAME = 60;
const MOST = 50;
/** Views of the live list: what else would a filter mean? */
const PATHS = ["/", "/list", "/by/host", "/by/project"];

/** name: no two have the same. search: of the address, with its question mark. @typedef {{name: string, path: string, search: string}} SavedView */

export const saved = signal(/** @type {SavedView[]} */ ([]));
/** What is wrong with what is kept, for people. */
export const savedTrouble = signal("");

/** @param {unknown} value @returns {SavedView | undefined} */
function viewIn(value) {
  const { name, path, search } = record(value);
  if (typeof name !== "string" || typeof search !== "string" || typeof path !== "string" || !PATHS.includes(path)) return undefined;
  const known = named(name);
  const by = path === "/list" ? sortIn(search) : undefined;
  return known ? { name: known, path, search: withSort(searchOf(filtersIn(search)), by) } : undefined;
}

/** @param {string} name */
function named(name) {
  return plain(name.trim(), LONGEST_NAME).trim();
}

function read() {
  savedTrouble.value = "";
  saved.value = [];
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(kept)) throw new SyntaxError("no list");
    const views = kept.slice(0, MOST).map(viewIn).filter((view) => view !== undefined);
    saved.value = views.filter(({ name }, i) => views.findIndex((each) => each.name === name) === i);
    const lost = kept.length - saved.value.length;
    if (lost > 0) savedTrouble.value = `${lost} of ${kept.length} saved views could not be read and ${lost === 1 ? "is" : "are"} left out.`;
  } catch (error) {
    const unreadable = error instanceof SyntaxError;
    savedTrouble.value = unreadable ? "The saved views in this browser could not be read. Saving one starts a new list." : "This browser keeps nothing for this page, so views last as long as it is open.";
  }
}

/** @param {SavedView[]} views */
function keep(views) {
  saved.value = views;
  savedTrouble.value = "";
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
  } catch {
    savedTrouble.value = "This browser keeps nothing more for this page, so this lasts as long as it is open.";
  }
}

/** A view of that name is replaced. @param {string} name @param {string} path @param {string} search @returns {string} why not, or nothing */
export function saveView(name, path, search) {
  const view = viewIn({ name, path, search });
  if (!view) return "Give it a name first.";
  const at = saved.value.findIndex((each) => each.name === view.name);
  if (at < 0 && saved.value.length >= MOST) return `There are ${MOST} already. Delete one in the settings first.`;
  keep(at < 0 ? [...saved.value, view] : saved.value.with(at, view));
  return "";
}

/** @param {string} name @param {string} wanted @returns {string} why not, or nothing */
export function renameView(name, wanted) {
  const fresh = named(wanted);
  if (!fresh) return "A view needs a name.";
  if (fresh !== name && saved.value.some((each) => each.name === fresh)) return `There is a view named “${fresh}” already.`;
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
