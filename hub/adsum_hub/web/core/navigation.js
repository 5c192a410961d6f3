// @ts-check
/** What is shown: the view, the session that is open, what lies over the page. The address says most of it. */
import { computed, effect, signal } from "../vendor/signals-core.js";
import { FACETS, filters, filtersIn, searchOf } from "./filters.js";
import { pathTo, sessionIdIn, sessionPath, viewOf } from "./routes.js";
import { GROUPS } from "./states.js";

/** @import { ViewName } from "./routes.js" */
/** @import { Group } from "../wire.js" */

/** What is drawn as the page. A session that was opened from another view is drawn over that one. */
export const view = signal(viewNamed());

/** The session that is open, as the page or over it. */
export const opened = signal(sessionNamed());

/** The view that was shown before a session became the page. */
export const cameFrom = signal(/** @type {ViewName} */ ("board"));

/** Which section a phone shows. */
export const tab = signal(
  /** @type {Group} */ (GROUPS.find((group) => location.hash === `#${group}`) ?? "needs_you"),
);

/** Where a session lies over another view, the entry in the history says over which. @returns {ViewName} */
function viewNamed() {
  const under = history.state?.under;
  return sessionNamed() && typeof under === "string" ? viewOf(under) : viewOf(location.pathname);
}

/** @returns {string | null} */
function sessionNamed() {
  return viewOf(location.pathname) === "session" ? sessionIdIn(location.pathname) : null;
}

/** Counts the moves, of which some change the address alone. */
export const moves = signal(0);

/**
 * When back was asked for, while it has not been gone yet. After very many moves in a row a browser does
 * not go at all: then it may be asked again.
 */
let backAt = -Infinity;
const BACK_MS = 1000;

function follow() {
  moves.value = moves.peek() + 1;
  if (view.value !== "session") cameFrom.value = view.value;
  view.value = viewNamed();
  opened.value = sessionNamed();
  tab.value = GROUPS.find((group) => location.hash === `#${group}`) ?? tab.value;
}

/** To another view; the filters come along unless the path has its own. @param {string} path */
export function go(path) {
  const target = new URL(path, location.origin);
  if (!target.search) target.search = searchOf(filters.value);
  // What lies over a view may become the page itself.
  const there = target.pathname + target.search === location.pathname + location.search;
  if (there && (!target.hash || target.hash === location.hash) && !history.state?.under) return;
  history.pushState({ ours: true }, "", target);
  filters.value = filtersIn(target.search);
  follow();
  scrollTo({ top: 0 });
}

/** @param {Group} group */
export function chooseTab(group) {
  tab.value = group;
  history.replaceState(history.state, "", `#${group}`);
}

/** Over the view that is shown; an entry of its own in the history, so that "back" closes it. @param {string} id */
export function openSession(id) {
  if (opened.value === id) return;
  const under = history.state?.under ?? location.pathname;
  // From one session to another: "back" still leads to the view below both.
  const move = opened.value && history.state?.under ? "replaceState" : "pushState";
  history[move]({ ours: true, under }, "", sessionPath(id) + searchOf(filters.value));
  follow();
}

/**
 * Opened by us: back to where we were. Opened by a link: there is nothing of ours behind it. The browser
 * goes back some time later: asked twice until then, as by two keys in a row, it would leave the page.
 */
export function closeSession() {
  if (!history.state?.under) return go(pathTo("board"));
  if (performance.now() - backAt < BACK_MS) return;
  backAt = performance.now();
  history.back();
}

/** Links within the page are followed without loading it again. @param {MouseEvent} click */
function onClick(click) {
  const link = click.target instanceof Element ? click.target.closest("a") : null;
  if (
    !link ||
    click.defaultPrevented ||
    click.button !== 0 ||
    click.metaKey ||
    click.ctrlKey ||
    click.shiftKey ||
    click.altKey
  )
    return;
  if (
    link.origin !== location.origin ||
    link.target ||
    link.hasAttribute("download") ||
    viewOf(link.pathname) === "nowhere"
  )
    return;
  if (link.hash && link.pathname === location.pathname) return;
  click.preventDefault();
  if (viewOf(link.pathname) === "session" && !link.dataset.page) openSession(sessionIdIn(link.pathname));
  else go(link.pathname + link.search + link.hash);
}

export function followAddress() {
  effect(() => {
    const address = new URL(location.href);
    const said = new URLSearchParams(searchOf(filters.value));
    for (const [name, value] of address.searchParams)
      if (name !== "q" && !FACETS.some((facet) => facet === name)) said.append(name, value);
    address.search = said.toString();
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  });
  addEventListener("popstate", () => {
    backAt = -Infinity;
    filters.value = filtersIn(location.search);
    follow();
  });
  document.addEventListener("click", onClick);
}

/** @typedef {{name: "palette" | "shortcuts" | "menu", typed: string}} Overlay */
/** What lies over the whole page; a new object each time it opens. typed: before it was there. */
export const overlay = signal(/** @type {Overlay | undefined} */ (undefined));

/** @param {Overlay["name"]} name */
export function show(name) {
  overlay.value = { name, typed: "" };
}

/** A dialog says late that it closed: by then another may be open in its place. @param {Overlay} closed */
export function hide(closed) {
  if (overlay.peek() === closed) overlay.value = undefined;
}

/** Whether the page has a hint to show about itself: it can be installed, or the hub has a newer one. */
export const offered = signal(false);

/** The view below an open session, or before it. */
export const listView = computed(() => (view.value === "session" ? cameFrom.value : view.value));
