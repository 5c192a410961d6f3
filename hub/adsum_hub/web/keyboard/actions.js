// @ts-check
/** What each key does. */
import { effect } from "../vendor/signals-core.js";
import { say, takeBack } from "../control/state.js";
import { putAside, toggleSeen, undo } from "../core/attention.js";
import { filters, narrow } from "../core/filters.js";
import { chooseTab, closeSession, go, opened, openSession, show, view } from "../core/navigation.js";
import { entryOf } from "../core/roster.js";
import { isList, pathTo, PLACES, sessionPath } from "../core/routes.js";
import { GROUPS, titleOf } from "../core/states.js";
import { neighboursOf } from "../session/state.js";

/** @import { Group } from "../wire.js" */

/** "g" waits for its second key. */
const SECOND_MS = 1500;
const OPENERS = ".open, .row-open, button, a[href]";
/** @type {ReturnType<typeof setTimeout> | undefined} */
let waiting;

/** @param {string} key */
export function runKey(key) {
  const second = waiting !== undefined;
  clearTimeout(waiting);
  waiting = undefined;
  if (second) {
    const place = PLACES.find((each) => each.key === key);
    return place && go(place.path);
  }
  if (key === "g") waiting = setTimeout(() => (waiting = undefined), SECOND_MS);
  else if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
  else if (key === "x" || key === "Escape") opened.value && closeSession();
  else if (key === "o") openAsPage();
  else if (key === "u") toggleRead();
  else if (key === "i" || key === "e") aside(key === "i" ? "dismiss" : "archive");
  else if (key === "z") takeBack() || undo();
  else if (key === "/") focusFilter();
  else if (key === "?") show("shortcuts");
  else if (!decide(key) && "123".includes(key) && !opened.value) toGroup(GROUPS[Number(key) - 1]);
}

/** What a key presses, the first that is there: the buttons themselves see to it that nothing is decided by chance. */
const BUTTONS = /** @type {Record<string, string[]>} */ ({
  a: ['[data-do="allow"]', '[data-do="open"]'],
  d: ['[data-do="deny"]', '[data-do="open"]'],
  r: ['[data-do="open"]'],
});

/** @param {Element} place @param {string} sought */
function focusOn(place, sought) {
  /** @type {HTMLElement | null} */ (place.querySelector(sought))?.focus();
}

/** In the open session, or on the card that has the focus. @param {string} key @returns {boolean} whether it was one */
function decide(key) {
  const place = opened.value ? document.querySelector(".sheet[data-name=sheet], .session") : current();
  const sought = BUTTONS[key] ?? [`[data-option="${key}"]`];
  const buttons = sought.flatMap((each) => /** @type {HTMLElement[]} */ ([
    ...(place?.querySelectorAll(`${each}:enabled, label${each}`) ?? []),
  ].filter((button) => !button.closest("[hidden]"))));
  const asked = document.activeElement?.closest("article.request");
  const found = buttons.find((button) => !asked || asked.contains(button));
  if (!found) return false;
  if (!asked && (place?.querySelectorAll("article.request fieldset.controls:not([hidden])").length ?? 0) > 1)
    return say("Several things are asked here, so the key decided nothing. Tab leads to one of them."), true;
  found.click();
  // An option is chosen, not sent: that is one more key.
  if (found.matches("label"))
    requestAnimationFrame(() => requestAnimationFrame(() => place && focusOn(asked ?? place, '[data-do="send"]')));
  return true;
}

function focusFilter() {
  const box = /** @type {HTMLInputElement | null} */ (
    document.querySelector(".head .filter input") ?? document.querySelector("#main input[type=search]")
  );
  box?.focus();
  box?.select();
}

/** Cards or rows as one sees them, top to bottom, section by section. @returns {HTMLElement[]} */
function items() {
  return /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#main [data-id]")]).filter((item) =>
    item.checkVisibility(),
  );
}

/** The one that has the focus. */
function current() {
  return /** @type {HTMLElement | null} */ (document.activeElement?.closest("#main [data-id]") ?? null);
}

/** @param {HTMLElement | undefined} item */
function focusItem(item) {
  if (!item) return;
  const target = item.matches("a, button, [tabindex]") ? item : item.querySelector(OPENERS);
  if (!(target instanceof HTMLElement)) return;
  target.focus({ preventScroll: true });
  item.scrollIntoView({ block: "nearest" });
}

/** @param {1 | -1} by */
function step(by) {
  if (opened.value) return stepSession(opened.value, by);
  const all = items();
  const at = current();
  const to = at ? all.indexOf(at) + by : by > 0 ? 0 : all.length - 1;
  focusItem(all[Math.max(0, Math.min(to, all.length - 1))]);
}

/**
 * From one session to the next, in the order of the view from which it was opened.
 * @param {string} id
 * @param {1 | -1} by
 */
function stepSession(id, by) {
  const { previous, next } = neighboursOf(id);
  const other = by > 0 ? next : previous;
  if (!other) return;
  if (view.value === "session") return go(sessionPath(other));
  openSession(other);
  comeBackTo(other);
}

/** @type {(() => void) | undefined} */
let stopWaiting;

/** Once the panel closes, the focus goes to the session that it showed last. @param {string} id */
function comeBackTo(id) {
  stopWaiting?.();
  stopWaiting = effect(() => {
    if (opened.value === id) return;
    // The browser gives the focus back to where it was before; after that it is ours.
    if (opened.value === null) setTimeout(() => focusItem(items().find((item) => item.dataset.id === id)), 50);
    queueMicrotask(() => stopWaiting?.());
  });
}

function openAsPage() {
  const id = opened.value ?? current()?.dataset.id;
  if (id) go(sessionPath(id));
}

/** On the board to its section, in a list to nobody else. @param {Group} group */
function toGroup(group) {
  if (view.value !== "board" && isList(view.value)) {
    const alone = filters.value.group.length === 1 && filters.value.group[0] === group;
    return narrow({ group: alone ? [] : [group] });
  }
  if (view.value !== "board") go(pathTo("board"));
  chooseTab(group);
  requestAnimationFrame(() => {
    const first = items().find((item) => item.closest(`[data-group="${group}"]`));
    if (first) return focusItem(first);
    /** @type {HTMLElement | null} */ (document.querySelector(`.section[data-group="${group}"] .scroll`))?.focus();
  });
}

/** The one that has the focus goes; the next takes the focus over. @param {"dismiss" | "archive"} verb */
function aside(verb) {
  const at = current();
  const id = opened.value ?? at?.dataset.id;
  const session = id && entryOf(id)?.view.value;
  if (!session) return;
  if (at && !opened.value) {
    const all = items();
    focusItem(all[all.indexOf(at) + 1] ?? all[all.indexOf(at) - 1]);
  }
  putAside(session.id, titleOf(session), verb);
}

function toggleRead() {
  const id = opened.value ?? current()?.dataset.id;
  if (id) toggleSeen(id);
}
