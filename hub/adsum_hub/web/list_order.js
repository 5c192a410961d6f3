// @ts-check
/** The columns of the list and the order of its rows, as the address says: `sort=cost`, `sort=-cost`. */
import { effect, signal } from "./vendor/signals-core.js";
import { go, opened, view } from "./address.js";
import { plain } from "./asks.js";
import { fullness, tokensOf } from "./figures.js";
import { filters, searchOf } from "./filters.js";
import { rankOf } from "./order.js";
import { GROUPS } from "./states.js";

/** @import { Entry } from "./roster.js" */
/** @import { SessionView } from "./wire.js" */

/**
 * key: what a row is sorted by; nothing stands last, whichever way the column is sorted.
 * down: the first press sorts it from the top.
 * @typedef {object} Column
 * @property {string} name
 * @property {string} title
 * @property {(session: SessionView) => string | number | null | undefined} key
 * @property {boolean} [down]
 */

/** @typedef {{column: Column, down: boolean}} Sort */

/** @type {Column[]} */
export const COLUMNS = [
  { name: "state", title: "State", key: stateKey },
  { name: "title", title: "Session", key: (session) => folded(session.title || session.project) },
  { name: "project", title: "Project", key: (session) => folded(session.project) },
  { name: "host", title: "Host", key: (session) => folded(session.host) },
  { name: "branch", title: "Branch", key: (session) => folded(session.branch) },
  { name: "model", title: "Model", key: (session) => folded(session.model) },
  { name: "age", title: "Since", key: (session) => -session.state.since, down: true },
  { name: "tokens", title: "Tokens", key: ({ usage }) => (usage ? tokensOf(usage) : null), down: true },
  { name: "cost", title: "Cost", key: ({ usage }) => usage?.cost_usd, down: true },
  { name: "context", title: "Context", key: ({ context }) => context && fullness(context), down: true },
];

/** Compared as it is: a collator takes ten times as long, several times a second. @param {string | null | undefined} text */
function folded(text) {
  return text ? plain(text, 200).toLowerCase() : null;
}

/** By group, then by urgency, then by name: equal states stand together. @param {SessionView} session */
function stateKey(session) {
  return `${GROUPS.indexOf(session.state.group)} ${String(rankOf(session, 0).urgency).padStart(6, "0")} ${session.state.state}`;
}

/** Nothing: in the order of attention. */
export const sort = signal(sortIn(location.search));

/** @param {string} search @returns {Sort | undefined} */
export function sortIn(search) {
  const said = new URLSearchParams(search).get("sort") ?? "";
  const column = COLUMNS.find(({ name }) => name === said.replace(/^-/, ""));
  return column && { column, down: said.startsWith("-") };
}

// The address leads: links, "back" and saved addresses all end here. Under an open session it is not the list's.
effect(() => {
  if (view.value !== "list" || opened.value !== null || !filters.value) return;
  const said = sortIn(location.search);
  const held = sort.peek();
  if (said?.column !== held?.column || said?.down !== held?.down) sort.value = said;
});

/** @param {Column | undefined} column @param {boolean} down */
export function sortBy(column, down) {
  go(`/list${withSort(searchOf(filters.value), column && { column, down })}`);
}

/** @param {string} search with its question mark, or nothing @param {Sort | undefined} by @returns {string} the same */
export function withSort(search, by) {
  return by ? `${search || "?"}${search && "&"}sort=${by.down ? "-" : ""}${by.column.name}` : search;
}

/** One press after the other: its own way, the other way, the order of attention. @param {Column} column */
export function press(column) {
  const first = Boolean(column.down);
  const held = sort.value?.column === column ? sort.value : undefined;
  if (!held) sortBy(column, first);
  else if (held.down === first) sortBy(column, !first);
  else sortBy(undefined, false);
}

/** Equal rows keep the order they come in, which is that of attention. @param {Entry[]} entries @param {Sort | undefined} by @returns {Entry[]} */
export function inOrder(entries, by) {
  if (!by) return entries;
  const { column, down } = by;
  const way = down ? -1 : 1;
  const keyed = entries.map((entry) => ({ entry, key: column.key(entry.view.peek()) ?? null }));
  keyed.sort((a, b) => {
    if (a.key === b.key) return 0;
    if (a.key === null) return 1;
    if (b.key === null) return -1;
    return a.key < b.key ? -way : way;
  });
  return keyed.map(({ entry }) => entry);
}
