// @ts-check
/** When the page was last true, and how many stood where: all that a page without its hub can say. */
import { effect, untracked } from "./vendor/signals-core.js";
import { linkState, stale } from "./link.js";
import { keptSignal } from "./kept.js";
import { here, known } from "./roster.js";

const EVERY_MS = 10_000;

/** at: this browser's clock; 0 = never. Counts and a time: who they were is kept nowhere. */
export const lastLive = keptSignal("lastLive", { at: 0, needs_you: 0, autonomous: 0, delivered: 0 });

/** Nothing of what is kept but a moment that was. */
export function lastLiveAt() {
  const { at } = lastLive.value;
  return at > 0 && at <= Date.now() ? at : 0;
}

export function keepLastLive() {
  const note = () => {
    if (!known.value || stale.value || linkState.value.phase !== "live") return;
    lastLive.value = {
      at: Date.now(),
      needs_you: here.needs_you.value.length,
      autonomous: here.autonomous.value.length,
      delivered: here.delivered.value.length,
    };
  };
  setInterval(note, EVERY_MS);
  addEventListener("pagehide", note);
  document.addEventListener("visibilitychange", note);
  effect(() => {
    if (linkState.value.phase === "live" && known.value) untracked(note);
  });
}
