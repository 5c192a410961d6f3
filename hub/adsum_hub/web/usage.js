// @ts-check
/** The usage report of the open panel: which one is wanted, and what the hub says. */
import { effect, signal } from "./vendor/signals-core.js";
import { askHub, listIn } from "./fetching.js";
import { whileReading } from "./reading.js";

/** @import { UsageReport } from "./wire.js" */

/** As far back as a hub goes. */
export const FURTHEST = 400;
export const DAYS = /** @type {const} */ ([1, 7, 30, 90, FURTHEST]);
export const BY = /** @type {const} */ (["day", "host", "project", "model", "session"]);

export const days = signal(/** @type {(typeof DAYS)[number]} */ (7));
export const by = signal(/** @type {(typeof BY)[number]} */ ("day"));

/**
 * report: while another is on its way, or could not be had, the one before. why: for people.
 * @typedef {{phase: "loading" | "shown" | "failed", report?: UsageReport, why?: string}} Usage
 */
export const usage = signal(/** @type {Usage} */ ({ phase: "loading" }));
/** Whether something was used before the days of a report that has nothing. */
export const older = signal(false);
/** Counts the times somebody asked for it again. */
const again = signal(0);

export function askAgain() {
  again.value += 1;
}

export function csvAddress() {
  return `${address()}&format=csv`;
}

function address() {
  return `/api/v1/usage?by=${by.value}&days=${days.value}`;
}

/** @returns {() => void} to be called when nobody looks any more */
export function watchUsage() {
  let asked = "";
  const ends = [
    effect(() => {
      const stopped = new AbortController();
      void again.value;
      // The same once more is no reason to dim what stands there.
      fetchUsage(address(), stopped.signal, address() === asked);
      asked = address();
      return () => stopped.abort();
    }),
    effect(() => {
      const stopped = new AbortController();
      const { phase, report } = usage.value;
      if (phase === "shown" && report?.rows.length === 0 && days.peek() < FURTHEST) lookFurther(stopped.signal);
      else older.value = false;
      return () => stopped.abort();
    }),
    whileReading(askAgain),
  ];
  return () => ends.forEach((end) => end());
}

/** @param {AbortSignal} stopped */
async function lookFurther(stopped) {
  const { body } = await askHub(`/api/v1/usage?by=day&days=${FURTHEST}`, stopped);
  if (!stopped.aborted) older.value = Boolean(listIn(body, "rows")?.length);
}

/** @param {string} path @param {AbortSignal} stopped @param {boolean} quiet */
async function fetchUsage(path, stopped, quiet) {
  const { report, phase } = usage.peek();
  if (!quiet || phase !== "shown") usage.value = { phase: "loading", report };
  const { body, why } = await askHub(path, stopped);
  if (stopped.aborted) return;
  if (listIn(body, "rows") && body.total) usage.value = { phase: "shown", report: body };
  else usage.value = { phase: "failed", report, why: why ?? "The hub answered something else than a report." };
}
