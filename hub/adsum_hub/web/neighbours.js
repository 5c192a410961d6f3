// @ts-check
/** Who stands before and after an open session, in the order of the view from which it was opened. */
import { computed, untracked } from "./vendor/signals-core.js";
import { cameFrom, opened, view } from "./address.js";
import { hubNow } from "./clock.js";
import { everyone, gather } from "./flat.js";
import { inOrder, sort } from "./list_order.js";
import { found } from "./past.js";
import { shown } from "./roster.js";
import { GROUPS } from "./states.js";

/** @import { Entry } from "./roster.js" */

/** The view below an open session, or before it. */
export const listView = computed(() => (view.value === "session" ? cameFrom.value : view.value));

/** Found anew once a second: nobody steps faster, and thousands change more often. */
const order = computed(() => {
  void [hubNow.value, opened.value, listView.value];
  return untracked(idsInOrder);
});

/** @returns {string[]} */
function idsInOrder() {
  const from = listView.peek();
  if (from === "history") return found.peek().sessions.map(({ id }) => id);
  return entriesInOrder(from).map(({ id }) => id);
}

/** @param {string} from @returns {Entry[]} */
function entriesInOrder(from) {
  if (from === "host" || from === "project") return gather(from, []).flatMap(({ here, absent }) => [...here, ...absent]);
  if (from !== "list") return GROUPS.flatMap((group) => [...shown[group].here.value, ...shown[group].absent.value]);
  const { here, absent } = everyone();
  return [...inOrder(here, sort.value), ...inOrder(absent, sort.value)];
}

/** place: from 1; 0 if it does not stand there. @param {string} id @returns {{previous?: string, next?: string, place: number, count: number}} */
export function neighboursOf(id) {
  const ids = order.value;
  const at = ids.indexOf(id);
  return at < 0 ? { place: 0, count: ids.length } : { previous: ids[at - 1], next: ids[at + 1], place: at + 1, count: ids.length };
}
