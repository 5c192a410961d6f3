// @ts-check
/** A chip that explains itself to whoever points at it or focuses it, above everything else. */
import { useId, useRef } from "../vendor/preact-hooks.js";
import { Icon, html } from "./html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */

const GAP = 8;

/** Pressing it shows the same at length. @param {{label: string, children?: ComponentChildren, onPress: () => void}} props */
export function Hint({ label, children, onPress }) {
  const id = useId();
  const chip = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const tip = useRef(/** @type {HTMLElement | null} */ (null));
  const isOpen = () => tip.current?.matches(":popover-open");
  const follow = () => {
    if (isOpen() && chip.current && tip.current) place(tip.current, chip.current.getBoundingClientRect());
    else removeEventListener("scroll", follow, true);
  };
  const show = () => {
    if (isOpen()) return;
    tip.current?.showPopover();
    follow();
    // Focusing a chip below the fold scrolls to it only afterwards.
    addEventListener("scroll", follow, true);
  };
  const hide = () => isOpen() && tip.current?.hidePopover();
  /** @param {KeyboardEvent} press */
  const onKeyDown = (press) => {
    if (press.key === "Escape") hide();
  };
  const onClick = () => {
    hide();
    onPress();
  };
  // The text lies within, so that the pointer can go over to it and read, or select.
  return html`<span class="hint" onMouseEnter=${show} onMouseLeave=${hide} onFocusIn=${() => chip.current?.matches(":focus-visible") && show()} onFocusOut=${hide} onKeyDown=${onKeyDown}>
    <button ref=${chip} class="chip" aria-describedby=${id} onClick=${onClick}><${Icon} name="triangle-alert" />${label}</button>
    <span ref=${tip} id=${id} class="hint-text" role="tooltip" popover="manual">${children}</span>
  </span>`;
}

/** Under the chip if there is room, else above it; never outside the window. @param {HTMLElement} tip @param {DOMRect} chip */
function place(tip, chip) {
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(GAP, Math.min(chip.left, innerWidth - width - GAP));
  const below = chip.bottom + height + GAP < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? chip.bottom : Math.max(GAP, chip.top - height)}px`;
}
