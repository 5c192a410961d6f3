// @ts-check
/** What the details of a session are made of: what it did last, its neighbours in the list, one that is over. */
import { computed, effect, signal, untracked } from "../vendor/signals-core.js";
import { askHub, listIn } from "../core/api.js";
import { hubNow, linkState } from "../core/link.js";
import { listView, opened } from "../core/navigation.js";
import { allShown, shown } from "../core/roster.js";
import { GROUPS } from "../core/states.js";
import { found } from "../history/state.js";
import { groupsOf, inOrder, sort } from "../list/state.js";

/** @import { ReadonlySignal } from "../vendor/signals-core.js" */
/** @import { Entry } from "../core/roster.js" */
/** @import { ActivityEntry, SessionView } from "../wire.js" */

/**
 * entries: newest first; while `failed`, those that were there before. left: the hub does not know
 * the session. why: for people.
 * @typedef {object} Activity
 * @property {"loading" | "shown" | "left" | "failed"} phase
 * @property {ActivityEntry[]} entries
 * @property {string} [why]
 */

/** A busy session changes many times a second; nobody reads that fast. */
const WAIT_MS = 1000;

/**
 * @param {string} id
 * @param {ReadonlySignal<SessionView | undefined>} view each change of it asks anew
 */
export function followActivity(id, view) {
  const activity = signal(/** @type {Activity} */ ({ phase: "loading", entries: [] }));
  const stopped = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let asking = false;
  let behind = true;

  async function ask() {
    clearTimeout(timer);
    timer = undefined;
    // Nobody looks: it is asked when somebody does.
    if (asking || stopped.signal.aborted || document.visibilityState === "hidden") return;
    [asking, behind] = [true, false];
    const answer = await fetchActivity(id, activity.peek().entries, stopped.signal);
    asking = false;
    if (stopped.signal.aborted) return;
    activity.value = answer;
    if (behind) later();
  }

  function later() {
    behind = true;
    if (!asking) timer ??= setTimeout(ask, WAIT_MS);
  }

  const shownAgain = () => {
    if (behind) ask();
  };
  // The first run of each effect is no change.
  let started = false;
  const ends = [
    effect(() => {
      void view.value;
      if (started) later();
    }),
    effect(() => {
      if (linkState.value.phase === "live" && started) later();
    }),
  ];
  started = true;
  document.addEventListener("visibilitychange", shownAgain);
  ask();

  return {
    activity,
    askNow: ask,
    stop() {
      stopped.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shownAgain);
      for (const end of ends) end();
    },
  };
}

/**
 * @param {string} id
 * @param {ActivityEntry[]} held what was shown so far
 * @param {AbortSignal} stopped
 * @returns {Promise<Activity>}
 */
async function fetchActivity(id, held, stopped) {
  const { body, status, why } = await askHub(`/api/v1/sessions/${encodeURIComponent(id)}/activity`, stopped);
  if (status === 404) return { phase: "left", entries: [] };
  if (why) return { phase: "failed", entries: held, why };
  const entries = listIn(body, "entries");
  if (!entries) return { phase: "failed", entries: held, why: "The hub's answer was not a list." };
  return { phase: "shown", entries: entries.reverse() };
}

/** Found anew once a second: nobody steps faster, and thousands change more often. */
const order = computed(() => {
  void [hubNow.value, opened.value, listView.value];
  return untracked(idsInOrder);
});

/** @returns {string[]} */
function idsInOrder() {
  const from = listView.peek();
  if (from === "history") return found.peek().sessions.map(({ id }) => id);
  return entriesInOrder(from).map(({ id }) => id);
}

/** @param {string} from @returns {Entry[]} */
function entriesInOrder(from) {
  if (from === "host" || from === "project" || from === "agent")
    return groupsOf(from, []).flatMap(({ here, absent }) => [...here, ...absent]);
  if (from !== "list") return GROUPS.flatMap((group) => [...shown[group].here.value, ...shown[group].absent.value]);
  const { here, absent } = allShown();
  return [...inOrder(here, sort.value), ...inOrder(absent, sort.value)];
}

/**
 * place: from 1; 0 if it does not stand there.
 * @param {string} id
 * @returns {{previous?: string, next?: string, place: number, count: number}}
 */
export function neighboursOf(id) {
  const ids = order.value;
  const at = ids.indexOf(id);
  return at < 0
    ? { place: 0, count: ids.length }
    : { previous: ids[at - 1], next: ids[at + 1], place: at + 1, count: ids.length };
}

/** @typedef {{phase: "loading" | "shown" | "left" | "failed", session?: SessionView, why?: string}} Past */

/** @param {string} id @param {AbortSignal} stopped @returns {Promise<Past>} left: the hub does not know it either */
export async function fetchSession(id, stopped) {
  const { body, status, why } = await askHub(`/api/v1/sessions/${encodeURIComponent(id)}`, stopped);
  if (status === 404) return { phase: "left" };
  if (why) return { phase: "failed", why };
  return body?.id === id && body.state
    ? { phase: "shown", session: body }
    : { phase: "failed", why: "The hub's answer was not a session." };
}
