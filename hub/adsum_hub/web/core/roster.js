// @ts-check
/** All sessions and hosts the hub has sent: one signal per session, one ordered list per section. */
import { batch, computed, effect, signal, untracked } from "../vendor/signals-core.js";
import { filtering, filters, keeps } from "./filters.js";
import { plain } from "./format.js";
import { byTrouble } from "./hosts.js";
import { linkState, stale } from "./link.js";
import { storedSignal } from "./preferences.js";
import { GROUPS } from "./states.js";

/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { Deltas, Snapshot } from "../messages.js" */
/** @import { Group, HostView, SessionView } from "../wire.js" */

/**
 * A session's place on the page; the card itself draws from `view`, so a change of one session
 * draws one card.
 * @typedef {object} Entry
 * @property {string} id
 * @property {Signal<SessionView>} view
 * @property {Place} place
 * @property {number} moved when it came to this place, by this browser's clock; 0 if it was there from the start
 * @property {number} rank in the one order that the hub makes
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
const membership = signal(0);

/** @param {string} id @returns {Entry | undefined} redrawn when it comes or goes */
export function entryOf(id) {
  return membership.value >= 0 ? entries.get(id) : undefined;
}

/** Everybody, in no order, whatever the filter says. */
export function allSessions() {
  return [...entries.values()].map(({ view }) => view.peek());
}

/** @param {SessionView} session @returns {HostView | undefined} */
export function hostOf(session) {
  return hosts.value.find((host) => host.id === session.host_id);
}

const agents = computed(
  () =>
    new Map(
      hosts.value.flatMap(({ id, agents: known = [] }) =>
        known.flatMap((one) => [/** @type {const} */ ([one.name, one]), [`${id} ${one.name}`, one]]),
      ),
    ),
);

/** As its machine tells, or any other: this hub may not have heard that one. @param {SessionView} session */
export function agentOf({ host_id, agent }) {
  return agents.value.get(`${host_id} ${agent}`) ?? agents.value.get(agent);
}

/** What its agent is called; "" for its machine's usual one, the first. @param {SessionView} session */
export function otherAgent(session) {
  const usual = hostOf(session)?.agents?.[0];
  return usual && usual.name !== session.agent ? plain(agentOf(session)?.title ?? session.agent) : "";
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

/**
 * What each section draws: what the filter leaves.
 * @type {Record<Group, {here: Signal<Entry[]>, absent: Signal<Entry[]>}>}
 */
export const shown = {
  needs_you: { here: filtered("here.needs_you"), absent: filtered("absent.needs_you") },
  autonomous: { here: filtered("here.autonomous"), absent: filtered("absent.autonomous") },
  delivered: { here: filtered("here.delivered"), absent: filtered("absent.delivered") },
};

/** @param {Place} place */
function filtered(place) {
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
    const moved = whole.value ? Date.now() : 0;
    entries.set(session.id, { id: session.id, view: signal(session), place, moved, rank: session.rank });
    dirty.add(place);
    return;
  }
  if (entry.place !== place) {
    dirty.add(entry.place);
    dirty.add(place);
    entry.place = place;
    entry.moved = Date.now();
  }
  if (session.rank !== entry.rank) dirty.add(place);
  entry.rank = session.rank;
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
    lists[place].value = list.sort((a, b) => a.rank - b.rank || (a.id < b.id ? -1 : 1));
  }
  total.value = entries.size;
  membership.value += 1;
}

/** @param {HostView[]} views of hosts that are on the roll; others come with the deltas */
export function applyHosts(views) {
  putHosts(
    views.filter(({ id }) => hostViews.has(id)),
    [],
  );
}

/** @param {HostView[]} changed @param {string[]} gone */
function putHosts(changed, gone) {
  if (changed.length + gone.length === 0) return;
  for (const host of changed) hostViews.set(host.id, host);
  for (const id of gone) hostViews.delete(id);
  hosts.value = [...hostViews.values()].sort(byTrouble);
}

/**
 * @param {Snapshot} snapshot or a part of one. The whole replaces all, yet keeps the cards of those who are
 *   still there
 */
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

/** @typedef {{here: Entry[], absent: Entry[]}} AllShown */

/** What the filter leaves, in the order of attention; those of offline hosts apart. @returns {AllShown} */
export function allShown() {
  return {
    here: GROUPS.flatMap((group) => shown[group].here.value),
    absent: GROUPS.flatMap((group) => shown[group].absent.value),
  };
}

/** Changes when someone comes, goes or moves: cheap to follow, unlike what a filter leaves of them. */
export function readMembership() {
  for (const group of GROUPS) void here[group].value;
}

/** How many there are on reachable hosts, whatever the filter says. */
export function countHere() {
  return GROUPS.reduce((sum, group) => sum + here[group].value.length, 0);
}

/** @template T @param {T[]} a @param {T[]} b */
export function sameItems(a, b) {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

const SAVE_EVERY_MS = 10_000;

/** at: this browser's clock; 0 = never. Counts and a time: who they were is kept nowhere. */
export const lastLive = storedSignal("lastLive", { at: 0, needs_you: 0, autonomous: 0, delivered: 0 });

/** Nothing of what is kept but a moment that was. */
export function lastLiveAt() {
  const { at } = lastLive.value;
  return at > 0 && at <= Date.now() ? at : 0;
}

export function rememberLastLive() {
  const note = () => {
    if (!known.value || stale.value || linkState.value.phase !== "live") return;
    lastLive.value = {
      at: Date.now(),
      needs_you: here.needs_you.value.length,
      autonomous: here.autonomous.value.length,
      delivered: here.delivered.value.length,
    };
  };
  setInterval(note, SAVE_EVERY_MS);
  addEventListener("pagehide", note);
  document.addEventListener("visibilitychange", note);
  effect(() => {
    if (linkState.value.phase === "live" && known.value) untracked(note);
  });
}

export const readers = computed(() => hosts.value.filter((host) => host.scan));
