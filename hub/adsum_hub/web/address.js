// @ts-check
/** What the address says: the filter, the section a phone shows, the session whose details are open. */
import { effect, signal } from "./vendor/signals-core.js";
import { query } from "./roster.js";
import { GROUPS } from "./states.js";

/** @import { Group } from "./wire.js" */

/** Which section a phone shows. */
export const tab = signal(/** @type {Group} */ (GROUPS.find((group) => location.hash === `#${group}`) ?? "needs_you"));
/** The session whose details are open. */
export const opened = signal(sessionNamed());

/** @returns {string | null} */
function sessionNamed() {
  return new URLSearchParams(location.hash.slice(1)).get("session") || null;
}

/** @param {Group} group */
export function chooseTab(group) {
  tab.value = group;
  history.replaceState(null, "", `#${group}`);
}

/** An entry of its own in the history, so that "back" closes the details. @param {string} id */
export function openSession(id) {
  if (opened.value === id) return;
  history.pushState({ details: true }, "", `#session=${encodeURIComponent(id)}`);
  opened.value = id;
}

export function closeSession() {
  // Opened by us: go back to where we were. Opened by a link: there is nothing of ours behind it.
  if (history.state?.details) return history.back();
  history.replaceState(null, "", location.pathname + location.search);
  opened.value = null;
}

export function followAddress() {
  query.value = new URLSearchParams(location.search).get("q") ?? "";
  effect(() => {
    const address = new URL(location.href);
    if (query.value) address.searchParams.set("q", query.value);
    else address.searchParams.delete("q");
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  });
  addEventListener("popstate", () => (opened.value = sessionNamed()));
}
