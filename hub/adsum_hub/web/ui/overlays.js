// @ts-check
/** What opens over the page: a sheet at the side, a popover beneath its button. */
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { html, Icon } from "./html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */

/**
 * ways: buttons beside the one that closes. low: its head stands below, within a thumb's reach. under: what
 * stays in sight below the title. still: it is there
 * already, as far as the reader sees. onClose: the reader closed it. onGone: it is off the page, whoever closed it.
 * @param {{name: string, title: string, tone?: string, still?: boolean, low?: boolean,
 *   ways?: ComponentChildren, under?: ComponentChildren, onClose: () => void, onGone?: () => void,
 *   children?: ComponentChildren}} props
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
    if (
      press.key !== "Escape" ||
      press.defaultPrevented ||
      document.querySelectorAll("dialog.sheet[open]").length < 2
    )
      return;
    press.preventDefault();
    sheet.current?.close();
  };
  const head = html`
    <header class="sheet-head">
      <h2 id=${`${name}-title`} tabindex="-1">
        <bdi>${title}</bdi>
      </h2>
      <div class="sheet-ways">
        <button class="close" aria-label="Close" onClick=${() => sheet.current?.close()}>
          <${Icon} name="x" />
        </button>
        ${ways}
      </div>
      ${under && html`<div class="sheet-under">${under}</div>`}
    </header>
  `;
  return html`
    <dialog
      ref=${sheet}
      class="sheet"
      data-name=${name}
      data-still=${still}
      aria-labelledby=${`${name}-title`}
      onClose=${onClose}
      onClick=${onClick}
      onKeyDown=${onKeyDown}
    >
      <div class="sheet-inner" data-tone=${tone} data-low=${low}>
        ${low ? html`
          ${children}
          ${head}
        ` : html`
          ${head}
          ${children}
        `}
      </div>
    </dialog>
  `;
}

const GAP = 6;
const EDGE = 8;
const STOPS = "input:not(:disabled), a[href], button:not(:disabled)";

/**
 * label: what it is, for those who do not see it. button: what stands on its button. What lies within is
 * drawn while it is open.
 * @param {{id: string, label: string, kind?: string, button: ComponentChildren, children?: ComponentChildren}} props
 */
export function Popover({ id, label, kind = "pick", button, children }) {
  const open = useSignal(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  /** @param {ToggleEvent} event */
  const onToggle = (event) => (open.value = event.newState === "open");
  return html`
    <button class=${kind} popovertarget=${id} aria-expanded=${open.value} aria-haspopup="dialog">
      ${button}
    </button>
    <div
      ref=${box}
      id=${id}
      class="popover"
      popover="auto"
      role="dialog"
      aria-label=${label}
      onBeforeToggle=${onToggle}
      onToggle=${onToggle}
      onKeyDown=${onArrow}
    >
      ${open.value && html`<${Placed} box=${box}>${children}<//>`}
    </div>
  `;
}

/** @param {Event} event of something within */
export function closeAround(event) {
  const box = /** @type {Element} */ (event.currentTarget).closest("[popover]");
  if (box instanceof HTMLElement && box.matches(":popover-open")) box.hidePopover();
}

/** @param {{box: {current: HTMLElement | null}, children?: ComponentChildren}} props */
function Placed({ box, children }) {
  useLayoutEffect(() => {
    const here = /** @type {HTMLElement} */ (box.current);
    place(here);
    /** @type {HTMLElement | null} */ (here.querySelector("[data-first]") ?? here.querySelector(STOPS))?.focus({
      preventScroll: true,
    });
    const again = () => place(here);
    addEventListener("resize", again);
    return () => removeEventListener("resize", again);
  }, []);
  return children;
}

/**
 * Under its button, at its other edge where there is no room. It moves with the page, as the button does.
 * @param {HTMLElement} box
 */
function place(box) {
  const button = document.querySelector(`[popovertarget="${CSS.escape(box.id)}"]`)?.getBoundingClientRect();
  if (!button) return;
  const width = box.getBoundingClientRect().width;
  const fits = button.left + width + EDGE <= document.documentElement.clientWidth;
  const left = Math.max(EDGE, fits ? button.left : button.right - width);
  box.style.left = `${left + scrollX}px`;
  box.style.top = `${button.bottom + GAP + scrollY}px`;
  box.style.maxHeight = `${Math.max(180, innerHeight - button.bottom - GAP - EDGE)}px`;
}

/** @param {KeyboardEvent} press */
function onArrow(press) {
  const box = /** @type {HTMLElement} */ (press.currentTarget);
  const at = document.activeElement;
  const typing = at instanceof HTMLInputElement && at.type !== "checkbox";
  const step = { ArrowDown: 1, ArrowUp: -1 }[press.key];
  if (press.key === "Enter" && at instanceof HTMLInputElement && !typing) return at.click();
  if (!step && (typing || !["Home", "End"].includes(press.key))) return;
  press.preventDefault();
  const stops = /** @type {HTMLElement[]} */ ([...box.querySelectorAll(STOPS)]);
  const from = stops.indexOf(/** @type {HTMLElement} */ (at));
  const to = step ? from + step : press.key === "Home" ? 0 : -1;
  stops.at(to % stops.length)?.focus();
}
