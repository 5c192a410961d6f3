// @ts-check
/** What the address says: the filter, the section a phone shows, the panel and the details that are open. */
import { effect, signal } from "./vendor/signals-core.js";
import { query } from "./roster.js";
import { GROUPS } from "./states.js";

/** @import { Group } from "./wire.js" */

/** Which section a phone shows. */
export const tab = signal(/** @type {Group} */ (GROUPS.find((group) => location.hash === `#${group}`) ?? "needs_you"));
/** The session whose details are open. */
export const opened = signal(sessionNamed());
/** What is open over the list, under the details. */
export const panel = signal(panelNamed());

/** @typedef {"usage" | "history"} PanelName */

function named() {
  return new URLSearchParams(location.hash.slice(1));
}

/** @returns {string | null} */
function sessionNamed() {
  return named().get("session") || null;
}

/** @returns {PanelName | null} */
function panelNamed() {
  return named().has("usage") ? "usage" : named().has("history") ? "history" : null;
}

/** @param {PanelName | null} name @param {string | null} id */
function hashOf(name, id) {
  return [name, id && `session=${encodeURIComponent(id)}`].filter(Boolean).join("&");
}

/** @param {Group} group */
export function chooseTab(group) {
  tab.value = group;
  history.replaceState(null, "", `#${group}`);
}

/** An entry of its own in the history, so that "back" closes the details. @param {string} id */
export function openSession(id) {
  if (opened.value === id) return;
  history.pushState({ ours: true }, "", `#${hashOf(panel.value, id)}`);
  opened.value = id;
}

export function closeSession() {
  if (!goneBack(hashOf(panel.value, null))) opened.value = null;
}

/** @param {PanelName} name */
export function openPanel(name) {
  if (panel.value === name) return;
  history.pushState({ ours: true }, "", `#${name}`);
  panel.value = name;
}

export function closePanel() {
  if (!goneBack("")) panel.value = null;
}

/** Opened by us: back to where we were. Opened by a link: there is nothing of ours behind it. @param {string} hash what stays then */
function goneBack(hash) {
  if (history.state?.ours) return history.back(), true;
  history.replaceState(null, "", location.pathname + location.search + (hash && `#${hash}`));
  return false;
}

export function followAddress() {
  query.value = new URLSearchParams(location.search).get("q") ?? "";
  effect(() => {
    const address = new URL(location.href);
    if (query.value) address.searchParams.set("q", query.value);
    else address.searchParams.delete("q");
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  });
  addEventListener("popstate", () => {
    opened.value = sessionNamed();
    panel.value = panelNamed();
  });
}
