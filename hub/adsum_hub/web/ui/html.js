// @ts-check
/** Templates without a compiler, and the small pieces that every view uses. */
import htm from "../vendor/htm.js";
import { useEffect, useMemo } from "../vendor/preact-hooks.js";
import { h } from "../vendor/preact.js";
import { computed } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import { duration, exact, HIDDEN, visible } from "../core/format.js";
import { hubNow } from "../core/link.js";

/** @import { ComponentType } from "../vendor/preact.js" */

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

/** Many blank lines, a character nobody sees, letters beyond ASCII. */
const MARKED = new RegExp(`(\\n(?:[ \\t]*\\n){4,}|[${HIDDEN}]|[^\\0-\\x7f${HIDDEN}]+)`, "u");

/** Code as it runs: from left to right, with nothing hidden. @param {{text: string}} props */
export function Code({ text }) {
  const parts = text.replaceAll("\r\n", "\n").split(MARKED);
  return html`
    <bdo dir="ltr">
      ${parts.map((part, i) => {
        if (i % 2 === 0) return part;
        const words = part[0] === "\n" ? `\n${part.split("\n").length - 2} blank lines\n` : visible(part);
        return html`<mark key=${i} data-hidden=${words !== part}>${words}</mark>`;
      })}
    </bdo>
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

// ---- parts that the first load does not need: their modules and styles are fetched when they are drawn

/** @param {string} name of a stylesheet, such as "list/list" @returns {Promise<void>} once it holds */
function styled(name) {
  const href = `/static/${name}.css`;
  if (document.querySelector(`link[href="${href}"]`)) return Promise.resolve();
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve, reject) => {
    link.onload = () => resolve();
    link.onerror = () => {
      link.remove();
      reject(new Error(`${href} could not be loaded`));
    };
    document.head.append(link);
  });
}

/**
 * A component that draws one of a module's exports once it has come; at once the next time.
 * part: which export. quiet: nothing stands there while it comes.
 * @param {() => Promise<Record<string, any>>} load
 * @param {...string} styles
 * @returns {ComponentType<{part?: string, quiet?: boolean} & Record<string, any>>}
 */
export function lazy(load, ...styles) {
  /** @type {Record<string, any> | undefined} */
  let module;
  const fetchAll = async () => {
    const [loaded] = await Promise.all([load(), ...["ui/panel", ...styles].map(styled)]);
    module = loaded;
  };
  return function Lazy({ part = "View", quiet = false, ...props }) {
    const phase = useSignal(/** @type {"loading" | "here" | "failed"} */ (module ? "here" : "loading"));
    const tries = useSignal(0);
    useEffect(() => {
      if (module) return void (phase.value = "here");
      let wanted = true;
      phase.value = "loading";
      fetchAll().then(
        () => wanted && (phase.value = "here"),
        () => wanted && (phase.value = "failed"),
      );
      return () => void (wanted = false);
    }, [tries.value]);
    // Read, so that it is drawn again once it is here.
    const now = phase.value;
    if (module) return html`<${/** @type {ComponentType<any>} */ (module[part])} ...${props} />`;
    if (now === "failed") return html`<${Failed} onRetry=${() => (tries.value += 1)} />`;
    return quiet ? null : html`<${Ghosts} words="Loading" />`;
  };
}

/** @param {{onRetry: () => void}} props */
function Failed({ onRetry }) {
  return html`
    <p class="lazy-failed" role="alert">
      <${Icon} name="triangle-alert" />
      <span>This part of the page could not be loaded. The hub may be out of reach or have been upgraded.</span>
      <button class="button" onClick=${onRetry}>
        <${Icon} name="refresh-cw" />
        Try again
      </button>
    </p>
  `;
}
