// @ts-check
/** The list's columns and sorting, as the address says (`sort=cost`, `sort=-cost`), and its groups. */
import { effect, signal } from "../vendor/signals-core.js";
import { filters, searchOf } from "../core/filters.js";
import { fullness, plain, tokensOf } from "../core/format.js";
import { go, opened, view } from "../core/navigation.js";
import { agentOf, allShown, hosts, sameItems } from "../core/roster.js";
import { pathTo } from "../core/routes.js";
import { GROUPS } from "../core/states.js";

/** @import { Entry } from "../core/roster.js" */
/** @import { Group, HostView, SessionView } from "../wire.js" */

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

/**
 * Compared as it is: a collator takes ten times as long, several times a second.
 * @param {string | null | undefined} text
 */
function folded(text) {
  return text ? plain(text, 200).toLowerCase() : null;
}

/** By group, then by urgency, then by name: equal states stand together. @param {SessionView} session */
function stateKey(session) {
  return `${GROUPS.indexOf(session.state.group)} ${session.urgency ?? ""} ${session.state.state}`;
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
  go(`${pathTo("list")}${withSort(searchOf(filters.value), column && { column, down })}`);
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

/**
 * Equal rows keep the order they come in, which is that of attention.
 * @param {Entry[]} entries
 * @param {Sort | undefined} by
 * @returns {Entry[]}
 */
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

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/**
 * Those of one host or one project. key: nothing for those without a project.
 * @typedef {object} ListGroup
 * @property {string | null} key
 * @property {string} name
 * @property {HostView} [host] where it is one
 * @property {boolean} offline all of it
 * @property {Record<Group, number>} counts of those on reachable hosts
 * @property {number} rank of its most urgent need
 * @property {Entry[]} here
 * @property {Entry[]} absent
 */

/**
 * The most urgent need first, then by name; offline hosts last.
 * @param {"host" | "project" | "agent"} by
 * @param {ListGroup[]} before what has not changed is taken from here, so that it is not drawn again
 * @returns {ListGroup[]}
 */
export function groupsOf(by, before) {
  const machines = new Map(hosts.value.map((host) => [host.id, host]));
  /** @type {Map<string | null, ListGroup>} */
  const found = new Map();
  const all = allShown();
  for (const entry of all.here) {
    const one = sectionOf(entry, by, found, machines);
    const session = entry.view.peek();
    one.here.push(entry);
    one.counts[session.state.group] += 1;
    if (session.state.group === "needs_you") one.rank = Math.min(one.rank, session.rank);
  }
  for (const entry of all.absent) sectionOf(entry, by, found, machines).absent.push(entry);
  for (const one of found.values()) one.offline = by === "host" && one.here.length === 0;
  const old = new Map(before.map((one) => [one.key, one]));
  return [...found.values()].sort(byNeed).map((one) => {
    const was = old.get(one.key);
    return was && sameSection(was, one) ? was : one;
  });
}

/**
 * @param {Entry} entry
 * @param {"host" | "project" | "agent"} by
 * @param {Map<string | null, ListGroup>} found
 * @param {Map<string, HostView>} machines
 */
function sectionOf(entry, by, found, machines) {
  const session = entry.view.peek();
  const key = by === "host" ? session.host_id : session[by] || null;
  let one = found.get(key);
  if (!one) {
    one = {
      key,
      name: (by === "agent" && agentOf(session)?.title) || (session[by] ?? ""),
      host: by === "host" ? machines.get(session.host_id) : undefined,
      offline: false,
      counts: { needs_you: 0, autonomous: 0, delivered: 0 },
      rank: Infinity,
      here: [],
      absent: [],
    };
    found.set(key, one);
  }
  return one;
}

/** @param {ListGroup} a @param {ListGroup} b */
function sameSection(a, b) {
  // A live host is heard every few seconds, and its section says nothing of it.
  const seen = !b.offline || a.host?.last_seen === b.host?.last_seen;
  return (
    a.name === b.name &&
    a.offline === b.offline &&
    seen &&
    a.host?.reachability === b.host?.reachability &&
    GROUPS.every((group) => a.counts[group] === b.counts[group]) &&
    sameItems(a.here, b.here) &&
    sameItems(a.absent, b.absent)
  );
}

/** @param {ListGroup} a @param {ListGroup} b */
function byNeed(a, b) {
  if (a.offline !== b.offline) return a.offline ? 1 : -1;
  return a.rank === b.rank ? byName(a, b) : a.rank - b.rank;
}

/** Those without a name last. @param {ListGroup} a @param {ListGroup} b */
function byName(a, b) {
  return (
    Number(a.key === null) - Number(b.key === null) ||
    collator.compare(a.name, b.name) ||
    ((a.key ?? "") < (b.key ?? "") ? -1 : 1)
  );
}

/** What a view keeps in the address beside the filters; an empty value goes. @param {Record<string, string>} own */
export function keepInAddress(own) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(own)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  if (address.href !== location.href) history.replaceState(history.state, "", address);
}
