// @ts-check
/** Templates without a compiler, and the small pieces that every view uses. */
import htm from "../vendor/htm.js";
import { useMemo } from "../vendor/preact-hooks.js";
import { h } from "../vendor/preact.js";
import { computed } from "../vendor/signals-core.js";
import { duration, exact } from "../core/format.js";
import { hubNow } from "../core/link.js";

/** Text in a template becomes a text node, never markup. */
export const html = htm.bind(h);
const SPRITE = new URL("../vendor/lucide.svg", import.meta.url).pathname;

/** Decoration beside words that say the same. @param {{name: string}} props */
export function Icon({ name }) {
  return html`
    <svg class="icon" aria-hidden="true">
      <use href=${`${SPRITE}#${name}`} />
    </svg>
  `;
}

/** How long ago, counting on; the exact time on hover. @param {{at: number}} props */
export function Age({ at }) {
  const text = useMemo(() => computed(() => duration(hubNow.value - at)), [at]);
  return html`
    <time class="age" datetime=${new Date(at).toISOString()} title=${exact(at)}>
      ${text}
    </time>
  `;
}

/** How long until then, counting down; the exact time on hover. @param {{at: number}} props */
export function Until({ at }) {
  const text = useMemo(() => computed(() => duration(at - hubNow.value)), [at]);
  return html`
    <time class="age" datetime=${new Date(at).toISOString()} title=${exact(at)}>
      ${text}
    </time>
  `;
}

/** What of a sentence is to be typed: `in backticks`, or the command it ends with. */
const TYPED = /`([^`]+)`|(?<=Next: )(adsum [a-z -]+)/;

/** A collector's or our own sentence, its commands set as such. @param {{text: string}} props */
export function Sentence({ text }) {
  return text.split(TYPED).map((part, i) => (i % 3 === 0 ? part : part && html`<code key=${i}>${part}</code>`));
}

/** A share as a slim bar, beside words that say the same. @param {{percent: number}} props */
export function Bar({ percent }) {
  return html`
    <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect width=${Math.min(100, Math.max(0, percent))} height="4" />
    </svg>
  `;
}

/** @param {{words: string}} props */
export function Ghosts({ words }) {
  return html`
    <div class="ghosts" aria-busy="true">
      <p class="sr" role="status">
        ${words}
      </p>
      ${[1, 2, 3, 4].map((n) => html`
        <div class="log-ghost" key=${n}></div>
      `)}
    </div>
  `;
}

/** @param {{at: number}} props */
export function Heard({ at }) {
  return at > 0 ? html`
    heard <${Age} at=${at} /> ago
  ` : (
    "never heard"
  );
}
