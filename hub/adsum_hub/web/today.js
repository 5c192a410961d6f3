// @ts-check
/** What today has cost so far, over all machines: asked for now and then while somebody looks. */
import { computed, effect, signal } from "./vendor/signals-core.js";
import { askHub } from "./fetching.js";
import { linkState } from "./link.js";

/** @import { Summary } from "./wire.js" */

const EVERY_MS = 15_000;

/** Nothing until the hub has said. */
export const today = signal(/** @type {Summary | undefined} */ (undefined));

async function ask() {
  if (document.visibilityState === "hidden") return;
  const { body } = await askHub("/api/v1/summary", AbortSignal.timeout(EVERY_MS));
  // What goes wrong is the link's to tell; here the last word stands.
  if (typeof body === "object" && body) today.value = body;
}

export function watchToday() {
  const live = computed(() => linkState.value.phase === "live");
  effect(() => {
    if (!live.value) return;
    ask();
    const timer = setInterval(ask, EVERY_MS);
    document.addEventListener("visibilitychange", ask);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  });
}
