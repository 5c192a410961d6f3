// @ts-check
/** A button and what it opens beneath itself: over everything, closed by Esc or a press elsewhere, walked through by arrows. */
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { html } from "./html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */

const GAP = 6;
const EDGE = 8;
const STOPS = "input:not(:disabled), a[href], button:not(:disabled)";

/**
 * label: what it is, for those who do not see it. button: what stands on its button. What lies within is drawn while it is open.
 * @param {{id: string, label: string, kind?: string, button: ComponentChildren, children?: ComponentChildren}} props
 */
export function Popover({ id, label, kind = "pick", button, children }) {
  const open = useSignal(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  /** @param {ToggleEvent} event */
  const onToggle = (event) => (open.value = event.newState === "open");
  return html`<button class=${kind} popovertarget=${id} aria-expanded=${open.value} aria-haspopup="dialog">${button}</button>
    <div ref=${box} id=${id} class="popover" popover="auto" role="dialog" aria-label=${label} onBeforeToggle=${onToggle} onToggle=${onToggle} onKeyDown=${onArrow}>
      ${open.value && html`<${Placed} box=${box}>${children}<//>`}
    </div>`;
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
    /** @type {HTMLElement | null} */ (here.querySelector("[data-first]") ?? here.querySelector(STOPS))?.focus({ preventScroll: true });
    const again = () => place(here);
    addEventListener("resize", again);
    return () => removeEventListener("resize", again);
  }, []);
  return children;
}

/** Under its button, at its other edge where there is no room. It moves with the page, as the button does. @param {HTMLElement} box */
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
