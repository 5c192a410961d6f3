// @ts-check
/** Templates without a compiler, and the small pieces that every view uses. */
import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";
import { useMemo } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals.js";
import { duration, exact, hubNow } from "../clock.js";

/** Text in a template becomes a text node, never markup. */
export const html = htm.bind(h);

const SPRITE = new URL("../vendor/lucide.svg", import.meta.url).pathname;

/** Decoration beside words that say the same. @param {{name: string}} props */
export function Icon({ name }) {
  return html`<svg class="icon" aria-hidden="true"><use href=${`${SPRITE}#${name}`} /></svg>`;
}

/** How long ago, counting on; the exact time on hover. @param {{at: number}} props */
export function Age({ at }) {
  const text = useMemo(() => computed(() => duration(hubNow.value - at)), [at]);
  return html`<time class="age" datetime=${new Date(at).toISOString()} title=${exact(at)}>${text}</time>`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

/** What of a sentence is to be typed: `in backticks`, or the command it ends with. */
const TYPED = /`([^`]+)`|(?<=Next: )(adsum [a-z -]+)/;

/** A collector's or our own sentence, its commands set as such. @param {{text: string}} props */
export function Sentence({ text }) {
  return text.split(TYPED).map((part, i) => (i % 3 === 0 ? part : part && html`<code key=${i}>${part}</code>`));
}
