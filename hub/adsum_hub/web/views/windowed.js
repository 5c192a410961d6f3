// @ts-check
/** Of thousands of rows of one height those that can be seen, and a few more on either side. */
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";

/** Rows drawn beyond either edge, so that a turn of the wheel or the next key finds them there. */
const BEYOND = 12;
/** The edges move by so many rows at once: not every pixel scrolled draws again. */
const STEP = 8;
/** Until it has been measured. */
const ROW_PX = 40;

/**
 * start: an element whose top is that of the first row. ruler: one as high as a row; its height
 * follows density, zoom and width. Which rows to draw is `edges`.
 */
export function useWindow() {
  const start = useRef(/** @type {any} */ (null));
  const ruler = useRef(/** @type {any} */ (null));
  const row = useSignal(ROW_PX);
  const edges = useSignal({ first: 0, last: 40 });
  useLayoutEffect(() => {
    const box = /** @type {HTMLElement} */ (ruler.current.parentElement);
    const look = () => {
      if (!start.current) return;
      const { top, bottom } = box.getBoundingClientRect();
      const from = start.current.getBoundingClientRect().top;
      const first = Math.floor((Math.max(top, 0) - from) / row.peek() / STEP) * STEP - BEYOND;
      const last = Math.ceil((Math.min(bottom, innerHeight) - from) / row.peek() / STEP) * STEP + BEYOND;
      const held = edges.peek();
      if (first !== held.first || last !== held.last) edges.value = { first, last };
    };
    const measure = () => {
      row.value = ruler.current.getBoundingClientRect().height || ROW_PX;
      look();
    };
    const watch = new ResizeObserver(measure);
    watch.observe(ruler.current);
    watch.observe(box);
    // The page scrolls, or something in it; a scroll does not bubble.
    addEventListener("scroll", look, { capture: true, passive: true });
    addEventListener("resize", look);
    measure();
    return () => {
      watch.disconnect();
      removeEventListener("scroll", look, { capture: true });
      removeEventListener("resize", look);
    };
  }, []);
  return { start, ruler, row, edges };
}

/** @typedef {{gap: number, name: number} | {index: number}} Piece */

/**
 * What stands from top to bottom: rows, and gaps of so many rows that are not drawn. The row with the
 * focus is drawn wherever it is, or scrolling would lose the reader's place; so are its neighbours,
 * where the next key leads.
 * @param {number} count @param {{first: number, last: number}} edges @param {number} kept -1: none
 * @returns {Piece[]}
 */
export function pieces(count, edges, kept) {
  const last = Math.max(0, Math.min(count, edges.last));
  const first = Math.max(0, Math.min(edges.first, last - 1));
  const ranges = [[first, last]];
  if (kept >= 0) ranges.push([Math.max(0, kept - 1), Math.min(count, kept + 2)]);
  ranges.sort((a, b) => a[0] - b[0]);
  /** @type {Piece[]} */
  const all = [];
  let at = 0;
  ranges.forEach(([from, to], name) => {
    const start = Math.max(at, from);
    all.push({ gap: start - at, name });
    for (at = start; at < to; at++) all.push({ index: at });
  });
  all.push({ gap: Math.max(0, count - at), name: ranges.length });
  return all;
}
