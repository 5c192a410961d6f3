// @ts-check
/** An order that does not change under the reader's hands. */
import { useEffect, useMemo, useRef } from "./vendor/preact-hooks.js";
import { effect, signal, untracked } from "./vendor/signals.js";

/** At most so often is it made again. */
const BETWEEN_MS = 400;
/** So long after the reader's last move on it, it stands still: time to press what was aimed at. */
const HOLD_MS = 1000;
/** Values that no signal tells of are looked at so often. */
const LOOK_MS = 500;
const HANDS = ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"];

/**
 * What `make` gives. It is made again at once where the reader wants something else (`wanted` reads
 * those signals); where others have moved (`moved`) at most a few times a second, and never within a
 * second of the reader's pointer or keys on `place`.
 * @template T
 * @param {{make: () => T, same: (old: T, fresh: T) => boolean, wanted: () => unknown, moved: () => unknown}} how the same ones for as long as it is drawn
 */
export function useCalm({ make, same, wanted, moved }) {
  const place = useRef(/** @type {any} */ (null));
  const held = useMemo(() => signal(untracked(make)), []);
  useEffect(() => {
    let made = 0;
    let touched = -HOLD_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const again = () => {
      clearTimeout(timer);
      timer = undefined;
      made = performance.now();
      const fresh = untracked(make);
      if (!same(held.peek(), fresh)) held.value = fresh;
    };
    const soon = () => {
      if (timer !== undefined) return;
      const wait = Math.max(made + BETWEEN_MS, touched + HOLD_MS) - performance.now();
      if (wait <= 0) return again();
      timer = setTimeout(() => {
        timer = undefined;
        soon();
      }, wait);
    };
    const touch = () => void (touched = performance.now());
    for (const kind of HANDS) place.current?.addEventListener(kind, touch, { passive: true });
    const element = place.current;
    const ends = [
      effect(() => {
        wanted();
        again();
      }),
      effect(() => {
        moved();
        soon();
      }),
    ];
    const look = setInterval(() => document.visibilityState === "visible" && soon(), LOOK_MS);
    return () => {
      clearTimeout(timer);
      clearInterval(look);
      for (const end of ends) end();
      for (const kind of HANDS) element?.removeEventListener(kind, touch);
    };
  }, []);
  return { held, place };
}
