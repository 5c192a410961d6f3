// @ts-check
/** The usage report of the open panel: which one is wanted, and what the hub says. */
import { effect, signal } from "./vendor/signals-core.js";
import { askHub, listIn } from "./fetching.js";

/** @import { UsageReport } from "./wire.js" */

export const DAYS = /** @type {const} */ ([1, 7, 30]);
export const BY = /** @type {const} */ (["day", "host", "project", "model", "session"]);

export const days = signal(/** @type {(typeof DAYS)[number]} */ (7));
export const by = signal(/** @type {(typeof BY)[number]} */ ("day"));

/**
 * report: while another is on its way, or could not be had, the one before. why: for people.
 * @typedef {{phase: "loading" | "shown" | "failed", report?: UsageReport, why?: string}} Usage
 */
export const usage = signal(/** @type {Usage} */ ({ phase: "loading" }));
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
  return effect(() => {
    const stopped = new AbortController();
    void again.value;
    fetchUsage(address(), stopped.signal);
    return () => stopped.abort();
  });
}

/** @param {string} path @param {AbortSignal} stopped */
async function fetchUsage(path, stopped) {
  const { report } = usage.peek();
  usage.value = { phase: "loading", report };
  const { body, why } = await askHub(path, stopped);
  if (stopped.aborted) return;
  if (listIn(body, "rows") && body.total) usage.value = { phase: "shown", report: body };
  else usage.value = { phase: "failed", report, why: why ?? "The hub answered something else than a report." };
}
