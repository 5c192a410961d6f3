// @ts-check
/** A part of a session's page, named by its heading. */
import { html } from "./html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */

/** @param {{part: string, title: string, count?: number, note?: string, children?: ComponentChildren}} props */
export function Part({ part, title, count, note, children }) {
  return html`<section class="part" data-part=${part} aria-labelledby=${`part-${part}`}>
    <header class="part-head"><h3 id=${`part-${part}`}>${title}</h3>${count && html`<span class="part-count">${count.toLocaleString()}</span>`}${note && html`<span class="part-note">${note}</span>`}</header>
    ${children}
  </section>`;
}
