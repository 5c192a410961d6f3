// @ts-check
/** What narrows the list: words, and facets of which a session must have one value each. Kept in the address. */
import { computed, signal } from "../vendor/signals-core.js";
import { plain } from "./format.js";
import { GROUP_LOOK, modelName } from "./states.js";

/** @import { Group, SessionView } from "../wire.js" */

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
export const filtering = computed(
  () => Boolean(filters.value.q.trim()) || FACETS.some((facet) => filters.value[facet].length > 0),
);

/** @param {string} search @returns {Filters} */
export function filtersIn(search) {
  const said = new URLSearchParams(search);
  const values = (/** @type {string} */ name) =>
    [...new Set(said.getAll(name))]
      .slice(0, MOST_VALUES)
      .map((value) => value.slice(0, LONGEST))
      .filter(Boolean);
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

/**
 * What a session counts as under a facet, no longer than an address may hold; nothing where it has no such
 * thing.
 * @param {SessionView} session
 * @param {Facet} facet
 * @returns {string | undefined}
 */
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

/** In the order in which they are offered. @type {Record<Facet, {name: string, icon: string}>} */
export const FACET_LOOK = {
  host: { name: "Host", icon: "server" },
  project: { name: "Project", icon: "folder" },
  group: { name: "Group", icon: "layers" },
  state: { name: "State", icon: "circle-dot" },
  model: { name: "Model", icon: "cpu" },
  agent: { name: "Agent", icon: "bot" },
};

export const OFFERED = /** @type {Facet[]} */ (Object.keys(FACET_LOOK));
export const LONGEST_NAME = 80;

/** @param {Facet} facet @param {string} value @returns {string} */
export function valueName(facet, value) {
  if (facet === "group" && Object.hasOwn(GROUP_LOOK, value)) return GROUP_LOOK[/** @type {Group} */ (value)].title;
  const text = plain(value, LONGEST_NAME);
  if (facet === "model") return modelName(text);
  if (facet !== "state" && facet !== "agent") return text;
  const words = text.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Every word of the query must be somewhere in what the card shows.
 * @param {SessionView} session
 * @param {string} query
 */
export function matches(session, query) {
  const text = [
    session.title,
    session.project,
    session.host,
    session.branch,
    session.model,
    session.cwd,
    session.session_id,
    session.state.state,
    session.state.label,
    session.display?.label,
    session.agent,
  ]
    .join("\n")
    .toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
