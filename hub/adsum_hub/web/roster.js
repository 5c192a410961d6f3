// @ts-check
/** Everyone the hub has told us of: one signal per session, one ordered list per section. */
import { batch, computed, signal } from "./vendor/signals.js";
import { filtering, filters, keeps } from "./filters.js";
import { byRank, byTrouble, rankOf } from "./order.js";

/** @import { Deltas, Snapshot } from "./messages.js" */
/** @import { Group, HostView, SessionView } from "./wire.js" */
/** @import { Rank } from "./order.js" */
/** @import { Signal } from "./vendor/signals.js" */

/**
 * A session's place on the page; the card itself draws from `view`, so a change of one session
 * draws one card.
 * @typedef {object} Entry
 * @property {string} id
 * @property {Signal<SessionView>} view
 * @property {Place} place
 * @property {number} arrived when it came to this place
 * @property {number} moved the same by this browser's clock; 0 if it was there from the start
 * @property {Rank} rank
 */

/** A section, or those of its sessions whose host is offline. @typedef {`${"here" | "absent"}.${Group}`} Place */

/** @type {Map<string, Entry>} */
const entries = new Map();
/** @type {Map<string, HostView>} */
const hostViews = new Map();

/** @type {Record<Place, Signal<Entry[]>>} */
const lists = {
  "here.needs_you": signal([]),
  "here.autonomous": signal([]),
  "here.delivered": signal([]),
  "absent.needs_you": signal([]),
  "absent.autonomous": signal([]),
  "absent.delivered": signal([]),
};

/** False until the first snapshot, or what of it is looked at first. */
export const known = signal(false);
/** False until the first snapshot is whole. */
export const whole = signal(false);
/** Of the first snapshot, what has not come yet. @type {Signal<Record<Group, number> | undefined>} */
const coming = signal(undefined);
/** Of a snapshot in parts, whom the parts so far have named. @type {Set<string>} */
let named = new Set();
export const hosts = signal(/** @type {HostView[]} */ ([]));
/** How many sessions there are, those of offline hosts included. */
export const total = signal(0);

/** Counts the changes of who stands where. */
const moves = signal(0);

/** @param {string} id @returns {Entry | undefined} redrawn when it comes or goes */
export function entryOf(id) {
  return moves.value >= 0 ? entries.get(id) : undefined;
}

/** Everybody, in no order, whatever the filter says. */
export function allSessions() {
  return [...entries.values()].map(({ view }) => view.peek());
}

/** @param {SessionView} session @returns {HostView | undefined} */
export function hostOf(session) {
  return hosts.value.find((host) => host.id === session.host_id);
}

/** When a session's host was last heard. @param {SessionView} session */
export function lastSeen(session) {
  return hostOf(session)?.last_seen ?? session.updated_at;
}

/** Sessions on reachable hosts by group, whatever the filter says. @type {Record<Group, Signal<Entry[]>>} */
export const here = {
  needs_you: lists["here.needs_you"],
  autonomous: lists["here.autonomous"],
  delivered: lists["here.delivered"],
};

/** How many of a section there are, those included who are still to come. @param {Group} group */
export function countOf(group) {
  return here[group].value.length + (coming.value?.[group] ?? 0);
}

/** Those on offline hosts. @type {Record<Group, Signal<Entry[]>>} */
export const away = {
  needs_you: lists["absent.needs_you"],
  autonomous: lists["absent.autonomous"],
  delivered: lists["absent.delivered"],
};

/** What each section draws: what the filter leaves. @type {Record<Group, {here: Signal<Entry[]>, absent: Signal<Entry[]>}>} */
export const shown = {
  needs_you: { here: kept("here.needs_you"), absent: kept("absent.needs_you") },
  autonomous: { here: kept("here.autonomous"), absent: kept("absent.autonomous") },
  delivered: { here: kept("here.delivered"), absent: kept("absent.delivered") },
};

/** @param {Place} place */
function kept(place) {
  return computed(() => {
    const list = lists[place].value;
    const wanted = filters.value;
    return filtering.value ? list.filter((entry) => keeps(entry.view.value, wanted)) : list;
  });
}

/** @param {SessionView} session @returns {Place} */
function placeOf(session) {
  const { group } = session.state;
  return `${session.reachability === "offline" ? "absent" : "here"}.${group}`;
}

/** @param {SessionView} session @param {Set<Place>} dirty lists to sort again */
function put(session, dirty) {
  const place = placeOf(session);
  const entry = entries.get(session.id);
  if (!entry) {
    const arrived = session.state.since;
    const rank = rankOf(session, arrived);
    const moved = whole.value ? Date.now() : 0;
    entries.set(session.id, { id: session.id, view: signal(session), place, arrived, moved, rank });
    dirty.add(place);
    return;
  }
  if (entry.place !== place) {
    dirty.add(entry.place);
    dirty.add(place);
    entry.place = place;
    entry.arrived = session.state.since;
    entry.moved = Date.now();
  }
  const rank = rankOf(session, entry.arrived);
  if (rank.urgency !== entry.rank.urgency || rank.time !== entry.rank.time) dirty.add(place);
  entry.rank = rank;
  entry.view.value = session;
}

/** @param {string} id @param {Set<Place>} dirty */
function drop(id, dirty) {
  const entry = entries.get(id);
  if (!entry) return;
  entries.delete(id);
  dirty.add(entry.place);
}

/** @param {Set<Place>} dirty */
function sortAgain(dirty) {
  /** @type {Map<Place, Entry[]>} */
  const found = new Map();
  for (const place of dirty) found.set(place, []);
  for (const entry of entries.values()) found.get(entry.place)?.push(entry);
  for (const [place, list] of found) {
    lists[place].value = list.sort((a, b) => byRank(a.rank, b.rank));
  }
  total.value = entries.size;
  moves.value += 1;
}

/** @param {HostView[]} views of hosts that are on the roll; others come with the deltas */
export function applyHosts(views) {
  putHosts(views.filter(({ id }) => hostViews.has(id)), []);
}

/** @param {HostView[]} changed @param {string[]} gone */
function putHosts(changed, gone) {
  if (changed.length + gone.length === 0) return;
  for (const host of changed) hostViews.set(host.id, host);
  for (const id of gone) hostViews.delete(id);
  hosts.value = [...hostViews.values()].sort(byTrouble);
}

/** @param {Snapshot} snapshot or a part of one. The whole replaces all, yet keeps the cards of those who are still there */
export function applySnapshot({ sessions, hosts: told, more }) {
  batch(() => {
    /** @type {Set<Place>} */
    const dirty = new Set();
    if (told) {
      named = new Set();
      hostViews.clear();
      for (const host of told) hostViews.set(host.id, host);
      hosts.value = [...hostViews.values()].sort(byTrouble);
    }
    for (const session of sessions) {
      named.add(session.id);
      put(session, dirty);
    }
    if (!more) for (const id of [...entries.keys()]) if (!named.has(id)) drop(id, dirty);
    sortAgain(dirty);
    coming.value = whole.value || !more ? undefined : withoutListed(more);
    known.value = true;
    whole.value ||= !more;
  });
}

/**
 * Whoever came before the link broke off is in the lists, and again among those still to come.
 * @param {Record<Group, number>} more
 */
function withoutListed(more) {
  const left = { ...more };
  for (const group of /** @type {Group[]} */ (Object.keys(left))) {
    left[group] -= here[group].value.filter(({ id }) => !named.has(id)).length;
  }
  return left;
}

/** @param {Deltas} deltas */
export function applyDeltas(deltas) {
  batch(() => {
    /** @type {Set<Place>} */
    const dirty = new Set();
    for (const session of deltas.sessions ?? []) put(session, dirty);
    for (const id of deltas.gone ?? []) drop(id, dirty);
    if (dirty.size > 0) sortAgain(dirty);
    putHosts(deltas.hosts ?? [], deltas.gone_hosts ?? []);
  });
}
