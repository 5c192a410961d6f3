// @ts-check
/** What narrows the list: words, and facets of which a session must have one value each. In the address. */
import { computed, signal } from "./vendor/signals-core.js";
import { matches } from "./order.js";

/** @import { SessionView } from "./wire.js" */

export const FACETS = /** @type {const} */ (["group", "state", "host", "project", "model", "agent"]);

/** @typedef {(typeof FACETS)[number]} Facet */
/** @typedef {{q: string} & Record<Facet, string[]>} Filters */

/** An address may say anything; so much of it is looked at. */
const MOST_VALUES = 50;
const LONGEST = 200;

export const filters = signal(filtersIn(location.search));
/** The words alone. */
export const query = computed(() => filters.value.q);
/** Whether anything narrows the list. */
export const filtering = computed(() => Boolean(filters.value.q.trim()) || FACETS.some((facet) => filters.value[facet].length > 0));

/** @param {string} search @returns {Filters} */
export function filtersIn(search) {
  const said = new URLSearchParams(search);
  const values = (/** @type {string} */ name) => [...new Set(said.getAll(name))].slice(0, MOST_VALUES).map((value) => value.slice(0, LONGEST)).filter(Boolean);
  const facets = Object.fromEntries(FACETS.map((facet) => [facet, values(facet)]));
  return /** @type {Filters} */ ({ q: (said.get("q") ?? "").slice(0, LONGEST), ...facets });
}

/** The same as a search string, with its question mark, or nothing. @param {Filters} wanted */
export function searchOf(wanted) {
  const said = new URLSearchParams();
  if (wanted.q) said.set("q", wanted.q);
  for (const facet of FACETS) for (const value of wanted[facet]) said.append(facet, value);
  const search = said.toString();
  return search && `?${search}`;
}

/** @param {Partial<Filters>} changed */
export function narrow(changed) {
  filters.value = { ...filters.value, ...changed };
}

export function clearFilters() {
  filters.value = filtersIn("");
}

/** One value of a facet put in, or taken out again. @param {Facet} facet @param {string} value */
export function toggle(facet, value) {
  const held = filters.value[facet];
  narrow({ [facet]: held.includes(value) ? held.filter((each) => each !== value) : [...held, value] });
}

/** What a session counts as under a facet, no longer than an address may hold; nothing where it has no such thing. @param {SessionView} session @param {Facet} facet @returns {string | undefined} */
export function valueOf(session, facet) {
  const value = facet === "group" || facet === "state" ? session.state[facet] : session[facet];
  return value?.slice(0, LONGEST);
}

/** @param {SessionView} session @param {Filters} wanted */
export function keeps(session, wanted) {
  const words = wanted.q.trim();
  for (const facet of FACETS) {
    const values = wanted[facet];
    if (values.length > 0 && !values.includes(valueOf(session, facet) ?? "")) return false;
  }
  return !words || matches(session, words);
}
