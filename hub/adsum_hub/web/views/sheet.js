// @ts-check
/** A panel at the side, on a phone over all: named by its heading, closed by Esc, button or a press outside. */
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { Icon, html } from "./html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */

/**
 * ways: buttons beside the one that closes. low: its head stands below, within a thumb's reach. under: what stays in sight below the title. still: it is there
 * already, as far as the reader sees. onClose: the reader closed it. onGone: it is off the page, whoever closed it.
 * @param {{name: string, title: string, tone?: string, still?: boolean, low?: boolean, ways?: ComponentChildren, under?: ComponentChildren, onClose: () => void, onGone?: () => void, children?: ComponentChildren}} props
 */
export function Sheet({ name, title, tone, still = false, low = false, ways, under, onClose, onGone, children }) {
  const sheet = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // The browser focuses the heading, keeps the focus inside, closes at Esc and gives the focus back.
  useLayoutEffect(() => {
    const dialog = /** @type {HTMLDialogElement} */ (sheet.current);
    dialog.showModal();
    return () => {
      dialog.close();
      onGone?.();
    };
  }, []);
  /** @param {MouseEvent} click */
  const onClick = (click) => click.target === sheet.current && sheet.current?.close();
  // Sheets that a link has opened close together at Esc, for a browser lets only people stack them.
  /** @param {KeyboardEvent} press */
  const onKeyDown = (press) => {
    if (press.key !== "Escape" || press.defaultPrevented || document.querySelectorAll("dialog.sheet[open]").length < 2) return;
    press.preventDefault();
    sheet.current?.close();
  };
  const head = html`<header class="sheet-head">
    <h2 id=${`${name}-title`} tabindex="-1"><bdi>${title}</bdi></h2>
    <div class="sheet-ways"><button class="close" aria-label="Close" onClick=${() => sheet.current?.close()}><${Icon} name="x" /></button>${ways}</div>
    ${under && html`<div class="sheet-under">${under}</div>`}
  </header>`;
  return html`<dialog ref=${sheet} class="sheet" data-name=${name} data-still=${still} aria-labelledby=${`${name}-title`} onClose=${onClose} onClick=${onClick} onKeyDown=${onKeyDown}>
    <div class="sheet-inner" data-tone=${tone} data-low=${low}>${low ? html`${children}${head}` : html`${head}${children}`}</div>
  </dialog>`;
}
