// @ts-check
/** The keyboard: hears what is ours; what a key does is fetched with the first of them. */
import { h, render } from "./vendor/preact.js";
import { Lazy } from "./views/lazy.js";

/** Without any other key held down. */
const OURS = "jkoxu/?gblhys123";
/** In the panel of a session there are fewer. */
const OVER_A_SESSION = "jkoxu";
/** "g" waits for its second key. */
export const SECOND_MS = 1500;

/** @type {HTMLElement | undefined} */
let room;
let shows = 0;
/** @type {Promise<typeof import("./moves.js")> | undefined} */
let moves;

/** Opens what lies over the page: the palette, the list of the keys. @param {"palette" | "shortcuts"} name */
export function show(name) {
  const place = (room ??= document.body.appendChild(document.createElement("div")));
  const mine = ++shows;
  // A dialog says late that it closed: by then another may be open in its place.
  const onClose = () => mine === shows && render(null, place);
  render(h(Lazy, { key: name, name, quiet: true, onClose }), place);
}

export function followKeys() {
  addEventListener("keydown", onKey);
}

/** At once: the letters that are typed after it must not be lost. */
function filterFocused() {
  const box = document.getElementById("filter");
  box?.focus();
  return box !== null;
}

/** @param {KeyboardEvent} press */
function onKey(press) {
  const { key, ctrlKey, metaKey, altKey, shiftKey, target } = press;
  if (press.defaultPrevented || press.isComposing || altKey) return;
  if ((ctrlKey || metaKey) && !shiftKey && key.toLowerCase() === "k") {
    press.preventDefault();
    if (!document.querySelector(".palette[open]")) show("palette");
    return;
  }
  if (ctrlKey || metaKey || press.repeat && !"jk".includes(key)) return;
  if (key !== "Escape" && (key.length !== 1 || !OURS.includes(key))) return;
  if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]")) return;
  const over = document.querySelector("dialog[open], [popover='auto']:popover-open");
  if (over && !(over.matches("[data-name=sheet]") && OVER_A_SESSION.includes(key))) return;
  if (document.querySelectorAll("dialog[open]").length > 1) return;
  if (key !== "Escape") press.preventDefault();
  if (key === "/" && filterFocused()) return;
  // One promise for all, so that what was pressed first is done first.
  moves ??= import("./moves.js");
  moves.then(({ move }) => move(key), () => (moves = undefined)); // asked for again at the next press
}
