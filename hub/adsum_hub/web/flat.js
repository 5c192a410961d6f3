// @ts-check
/** The roster as one list, and by host or project: functions, so nothing is worked out while nobody looks. */
import { rankOf } from "./order.js";
import { here, hosts, shown } from "./roster.js";
import { GROUPS } from "./states.js";

/** @import { Entry } from "./roster.js" */
/** @import { Group, HostView } from "./wire.js" */

const UNURGENT = 1e6;
const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

/** @typedef {{here: Entry[], absent: Entry[]}} Everyone */

/** What the filter leaves, in the order of attention; those of offline hosts apart. @returns {Everyone} */
export function everyone() {
  return {
    here: GROUPS.flatMap((group) => shown[group].here.value),
    absent: GROUPS.flatMap((group) => shown[group].absent.value),
  };
}

/** Changes when someone comes, goes or moves: cheap to follow, unlike what a filter leaves of them. */
export function followMoves() {
  for (const group of GROUPS) void here[group].value;
}

/** How many there are on reachable hosts, whatever the filter says. */
export function countHere() {
  return GROUPS.reduce((sum, group) => sum + here[group].value.length, 0);
}

/**
 * Those of one host or one project. key: nothing for those without a project.
 * @typedef {object} Gathered
 * @property {string | null} key
 * @property {string} name
 * @property {HostView} [host] where it is one
 * @property {boolean} offline all of it
 * @property {Record<Group, number>} counts of those on reachable hosts
 * @property {number | undefined} urgency of its most urgent need
 * @property {Entry[]} here
 * @property {Entry[]} absent
 */

/**
 * The most urgent need first, then by name; offline hosts last.
 * @param {"host" | "project"} by
 * @param {Gathered[]} before what has not changed is taken from here, so that it is not drawn again
 * @returns {Gathered[]}
 */
export function gather(by, before) {
  const machines = new Map(hosts.value.map((host) => [host.id, host]));
  /** @type {Map<string | null, Gathered>} */
  const found = new Map();
  const all = everyone();
  for (const entry of all.here) {
    const one = sectionOf(entry, by, found, machines);
    const session = entry.view.peek();
    one.here.push(entry);
    one.counts[session.state.group] += 1;
    // The list comes in the order of attention, so a section's first need is its most urgent one.
    if (session.state.group === "needs_you") one.urgency ??= rankOf(session, 0).urgency;
  }
  for (const entry of all.absent) sectionOf(entry, by, found, machines).absent.push(entry);
  for (const one of found.values()) one.offline = by === "host" && one.here.length === 0;
  const old = new Map(before.map((one) => [one.key, one]));
  return [...found.values()].sort(byNeed).map((one) => {
    const was = old.get(one.key);
    return was && sameSection(was, one) ? was : one;
  });
}

/** @param {Entry} entry @param {"host" | "project"} by @param {Map<string | null, Gathered>} found @param {Map<string, HostView>} machines */
function sectionOf(entry, by, found, machines) {
  const session = entry.view.peek();
  const key = by === "host" ? session.host_id : session.project || null;
  let one = found.get(key);
  if (!one) {
    one = {
      key,
      name: (by === "host" ? session.host : session.project) ?? "",
      host: by === "host" ? machines.get(session.host_id) : undefined,
      offline: false,
      counts: { needs_you: 0, autonomous: 0, delivered: 0 },
      urgency: undefined,
      here: [],
      absent: [],
    };
    found.set(key, one);
  }
  return one;
}

/** @param {Gathered} a @param {Gathered} b */
function sameSection(a, b) {
  // A live host is heard every few seconds, and its section says nothing of it.
  const seen = !b.offline || a.host?.last_seen === b.host?.last_seen;
  return a.name === b.name && a.offline === b.offline && seen && a.host?.reachability === b.host?.reachability
    && GROUPS.every((group) => a.counts[group] === b.counts[group]) && sameItems(a.here, b.here) && sameItems(a.absent, b.absent);
}

/** @template T @param {T[]} a @param {T[]} b */
export function sameItems(a, b) {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

/** @param {Gathered} a @param {Gathered} b */
function byNeed(a, b) {
  return Number(a.offline) - Number(b.offline) || (a.urgency ?? UNURGENT) - (b.urgency ?? UNURGENT) || byName(a, b);
}

/** Those without a name last. @param {Gathered} a @param {Gathered} b */
function byName(a, b) {
  return Number(a.key === null) - Number(b.key === null) || collator.compare(a.name, b.name) || ((a.key ?? "") < (b.key ?? "") ? -1 : 1);
}
