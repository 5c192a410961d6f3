// @ts-check
/** Hears the keys that are shortcuts; what they do is fetched with the first of them. */
import { overlay, show } from "../core/navigation.js";
import { PLACES } from "../core/routes.js";

/** Without any other key held down. */
const OURS = `jkoxuiez/?gadr123456789${PLACES.map(({ key }) => key).join("")}`;
/** In the panel of a session there are fewer. */
const OVER_A_SESSION = "jkoxuiezadr123456789";

/** @type {Promise<typeof import("./actions.js")> | undefined} */
let actions;

export function followKeys() {
  addEventListener("keydown", onKey);
}

/** At once: the letters that are typed after it must not be lost. */
function filterFocused() {
  const box = document.getElementById("filter");
  box?.focus();
  return box !== null;
}

/** Whoever has asked for room to write goes on to write: until it is there, letters are no keys. */
const WRITES_MS = 1200;
let writesUntil = 0;

function replyFocused() {
  const place = document.querySelector(".sheet[open][data-name=sheet], .session");
  /** @type {HTMLElement | null | undefined} */
  const box = place?.querySelector("[data-reply=true]:enabled");
  if (box) box.focus();
  else writesUntil = performance.now() + WRITES_MS;
  return Boolean(box);
}

/** What is typed for a palette that is still being fetched is meant for no card. @param {KeyboardEvent} press */
function isForOverlay(press) {
  const coming = overlay.peek();
  if (!coming || document.querySelector("dialog[open]:not([data-name=sheet])")) return false;
  if (press.key === "Escape") overlay.value = undefined;
  else if (press.key.length === 1) coming.typed += press.key;
  else if (press.key !== "Enter") return false;
  press.preventDefault();
  return true;
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
  if (ctrlKey || metaKey || isForOverlay(press) || (press.repeat && !"jk".includes(key))) return;
  if (key !== "Escape" && (key.length !== 1 || !OURS.includes(key))) return;
  if (target instanceof Element && target.closest("input, textarea, select, [contenteditable]")) return;
  const over = document.querySelector("dialog[open], [popover='auto']:popover-open");
  if (over && !(over.matches("[data-name=sheet]") && OVER_A_SESSION.includes(key))) return;
  if (document.querySelectorAll("dialog[open]").length > 1) return;
  if (key !== "Escape") press.preventDefault();
  if (key === "/" && filterFocused()) return;
  if (performance.now() < writesUntil) return;
  if (key === "r" && replyFocused()) return;
  // What decides comes in time or not at all: something else may be open by then.
  const late = performance.now() + (/[ad\d]/.test(key) ? 300 : Infinity);
  // One promise for all, so that what was pressed first is done first.
  actions ??= import("./actions.js");
  actions.then(
    ({ runKey }) => performance.now() > late || runKey(key),
    () => (actions = undefined), // asked for again at the next press
  );
}
