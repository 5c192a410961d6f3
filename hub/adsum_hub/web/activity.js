// @ts-check
/** What one session did last: fetched when its details open, and again as it goes on. */
import { effect, signal } from "./vendor/signals-core.js";
import { askHub, listIn } from "./fetching.js";
import { linkState } from "./link.js";

/** @import { ActivityEntry, SessionView } from "./wire.js" */
/** @import { ReadonlySignal } from "./vendor/signals-core.js" */

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
  if (!entries) return { phase: "failed", entries: held, why: "The hub answered something else than a list." };
  return { phase: "shown", entries: entries.reverse() };
}
