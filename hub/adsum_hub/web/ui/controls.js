// @ts-check
/** Copy buttons, commands, a choice of one, a list fetched from the hub. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { askHub, listIn } from "../core/api.js";
import { Age, html, Icon } from "./html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { Signal } from "../vendor/signals-core.js" */

const SAID_MS = 2000;

/**
 * what: of which the text is, for the name. words: shown beside the icon, in a row of ways.
 * @param {{text: string, what: string, words?: string}} props
 */
export function Copy({ text, what, words }) {
  const copied = useSignal(false);
  // Browsers give the clipboard only to https and loopback.
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    copied.value = true;
    setTimeout(() => (copied.value = false), SAID_MS);
  };
  return html`
    <button
      class=${words === undefined ? "copy" : "way"}
      aria-label=${`Copy ${what}`}
      title=${`Copy ${what}`}
      onClick=${copy}
    >
      <${Icon} name=${copied.value ? "check" : "copy"} />
      ${words && html`<span class="way-words">${copied.value ? "Copied" : words}</span>`}
      <span class="sr" role="status">
        ${copied.value ? "Copied" : ""}
      </span>
    </button>
  `;
}

/** Broken between its words where it can be. @param {{text: string}} props */
export function Command({ text }) {
  return html`
    <p class="command">
      <code>
        ${text.split(" ").map((word, i) => html`
          ${i > 0 && " "}
          <span>${word}</span>
        `)}
      </code>
      <${Copy} text=${text} what=${text} />
    </p>
  `;
}

/**
 * One of a few: arrow keys change it.
 * @param {{name: string, legend: string, chosen: any, options: [any, string][], onChoose: (value: any) => void}} props
 */
export function Choice({ name, legend, chosen, options, onChoose }) {
  return html`
    <fieldset class="choice">
      <legend class="sr">${legend}</legend>
      ${options.map(([value, words]) => html`
        <label key=${value}>
          <input type="radio" name=${name} checked=${chosen === value} onChange=${() => onChoose(value)} />
          <span>${words}</span>
        </label>
      `)}
    </fieldset>
  `;
}

/**
 * What a list of the hub's is doing.
 * @param {string} path
 * @param {string} name
 * @returns {{list: Signal<any[] | undefined>, why: Signal<string>, look: () => Promise<void>}}
 */
export function useList(path, name) {
  const list = useSignal(/** @type {any[] | undefined} */ (undefined));
  const why = useSignal("");
  const look = async () => {
    const answer = await askHub(path, new AbortController().signal);
    list.value = listIn(answer.body, name) ?? list.value;
    why.value = answer.why ?? "";
  };
  useEffect(() => void look(), []);
  return { list, why, look };
}

/** @param {{why: Signal<string>}} props */
export function Wrong({ why }) {
  return (
    why.value && html`
      <p class="wish-wrong" role="alert">
        ${why.value}
      </p>
    `
  );
}

/** @param {{part: string, title: string, count?: number, note?: string, children?: ComponentChildren}} props */
export function Part({ part, title, count, note, children }) {
  return html`
    <section class="part" data-part=${part} aria-labelledby=${`part-${part}`}>
      <header class="part-head">
        <h3 id=${`part-${part}`}>${title}</h3>
        ${count && html`<span class="part-count">${count.toLocaleString()}</span>`}
        ${note && html`<span class="part-note">${note}</span>`}
      </header>
      ${children}
    </section>
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
