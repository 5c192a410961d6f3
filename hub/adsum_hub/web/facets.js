// @ts-check
/** What there is to narrow by: the values of each facet, and how many sessions each of them would leave. */
import { effect, signal, untracked } from "./vendor/signals-core.js";
import { FACETS, filters, valueOf } from "./filters.js";
import { matches } from "./order.js";
import { allSessions, known } from "./roster.js";

/** @import { Facet, Filters } from "./filters.js" */
/** @import { SessionView } from "./wire.js" */

/** Figures that change with every signal cannot be read, and cost what the list needs. */
const EVERY_MS = 1000;

/** @typedef {{counts: Record<Facet, Map<string, number>>, left: number}} Tally */

/**
 * Each value of a facet counts the sessions that all the other facets leave, as it would add those.
 * @param {SessionView[]} sessions @param {Filters} wanted @returns {Tally}
 */
export function tally(sessions, wanted) {
  const counts = /** @type {Tally["counts"]} */ (Object.fromEntries(FACETS.map((facet) => [facet, new Map()])));
  const words = wanted.q.trim();
  let left = 0;
  for (const session of sessions) {
    const missed = FACETS.filter((facet) => wanted[facet].length > 0 && !wanted[facet].includes(valueOf(session, facet) ?? ""));
    const near = missed.length < 2 && (!words || matches(session, words));
    if (near && missed.length === 0) left += 1;
    for (const facet of FACETS) {
      const value = valueOf(session, facet);
      if (!value) continue;
      const counted = near && (missed.length === 0 || missed[0] === facet) ? 1 : 0;
      counts[facet].set(value, (counts[facet].get(value) ?? 0) + counted);
    }
  }
  return { counts, left };
}

export const tallied = signal(tally([], filters.peek()));

function count() {
  if (document.visibilityState === "visible") tallied.value = tally(allSessions(), filters.peek());
}

/** Counts as the filters change, and every second. @returns {() => void} to be called when nobody looks any more */
export function watchTally() {
  const end = effect(() => {
    void filters.value;
    if (known.value) untracked(count);
  });
  const timer = setInterval(count, EVERY_MS);
  return () => {
    end();
    clearInterval(timer);
  };
}
