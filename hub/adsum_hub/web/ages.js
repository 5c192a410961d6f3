// @ts-check
/** Keeps true when each host's witnesses were heard, while somebody looks: no message tells of that. */
import { computed, effect, signal } from "./vendor/signals-core.js";
import { applyHosts } from "./roster.js";

/** @import { HostView } from "./wire.js" */

const EVERY_MS = 10_000;
const watchers = signal(0);

/** @returns {() => void} to be called when nobody looks any more */
export function watchAges() {
  watchers.value += 1;
  return () => void (watchers.value -= 1);
}

async function ask() {
  if (document.visibilityState === "hidden") return;
  try {
    const answer = await fetch("/api/v1/hosts", { signal: AbortSignal.timeout(EVERY_MS) });
    /** @type {{hosts: HostView[]}} */
    const { hosts } = await answer.json();
    if (answer.ok) applyHosts(hosts);
  } catch {
    // The link says that the hub is away; here the ages stay as they were.
  }
}

const watched = computed(() => watchers.value > 0);
effect(() => {
  if (!watched.value) return;
  ask();
  const timer = setInterval(ask, EVERY_MS);
  return () => clearInterval(timer);
});
