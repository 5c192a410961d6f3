// @ts-check
/** A button that copies a text and says so; a line to type, with such a button. */
import { useSignal } from "../vendor/signals.js";
import { Icon, html } from "./html.js";

const SAID_MS = 2000;

/** what: of which the text is, for the name. words: shown beside the icon, in a row of ways. @param {{text: string, what: string, words?: string}} props */
export function Copy({ text, what, words }) {
  const copied = useSignal(false);
  // Browsers give the clipboard only to https and loopback.
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    copied.value = true;
    setTimeout(() => (copied.value = false), SAID_MS);
  };
  return html`<button class=${words === undefined ? "copy" : "way"} aria-label=${`Copy ${what}`} title=${`Copy ${what}`} onClick=${copy}>
    <${Icon} name=${copied.value ? "check" : "copy"} />${words && html`<span class="way-words">${copied.value ? "Copied" : words}</span>`}<span class="sr" role="status">${copied.value ? "Copied" : ""}</span>
  </button>`;
}

/** Broken between its words where it can be. @param {{text: string}} props */
export function Command({ text }) {
  return html`<p class="command"><code>${text.split(" ").map((word, i) => html`${i > 0 && " "}<span>${word}</span>`)}</code><${Copy} text=${text} what=${text} /></p>`;
}
