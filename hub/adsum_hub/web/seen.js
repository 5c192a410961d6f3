// @ts-check
/** What this reader has looked at. What came to those who need someone, or was delivered, since then is unread. */
import { computed, signal } from "./vendor/signals-core.js";
import { hubNow } from "./clock.js";
import { entryOf, here, whole } from "./roster.js";

/** @import { Group, SessionView } from "./wire.js" */
/** @import { ReadonlySignal } from "./vendor/signals-core.js" */

const KEY = "adsum.seen";
/** Of sessions that have left the roll, marks are kept for so long: one may come back. */
const GONE_MS = 24 * 3_600_000;
const MOST = 5_000;

/** By session: when it was looked at, by the hub's clock; negative: when it was marked as unread. */
const marks = signal(stored());

/** @returns {ReadonlyMap<string, number>} what another program has put there counts as nothing */
function stored() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return new Map(Object.entries(kept).filter((mark) => typeof mark[1] === "number").slice(-MOST));
  } catch {
    return new Map();
  }
}

/** The later word of two windows holds. @param {ReadonlyMap<string, number>} one @param {Iterable<[string, number]>} other */
function merged(one, other) {
  const both = new Map(one);
  for (const [id, mark] of other) if (Math.abs(mark) > Math.abs(both.get(id) ?? 0)) both.set(id, mark);
  return both;
}

/** @param {[string, number][]} changed */
function put(changed) {
  if (changed.length === 0) return;
  const all = [...merged(merged(stored(), marks.peek()), changed)]
    .filter(([id, mark]) => !whole.peek() || entryOf(id) || hubNow.peek() - Math.abs(mark) < GONE_MS)
    .sort((a, b) => Math.abs(a[1]) - Math.abs(b[1]))
    .slice(-MOST);
  marks.value = new Map(all);
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(all)));
  } catch {
    // No room, or forbidden: it holds as long as this page.
  }
}

addEventListener("storage", ({ key }) => {
  if (key === KEY) marks.value = merged(marks.peek(), stored());
});

/**
 * The hub's `unread` says that something has called for a human since anyone last answered, whoever they
 * are; the mark, whether this reader has looked since.
 * @param {SessionView} session
 */
export function isSeen({ id, unread, state }) {
  const mark = marks.value.get(id) ?? 0;
  if (mark < 0) return false;
  return !unread || state.group === "autonomous" || state.since <= mark;
}

/** A time later than the mark that was there and than what is looked at. @param {SessionView | undefined} session @param {string} id */
function now(id, session) {
  return Math.max(hubNow.peek(), session?.state.since ?? 0, Math.abs(marks.peek().get(id) ?? 0) + 1);
}

/** @param {string} id */
function viewOf(id) {
  return entryOf(id)?.view.peek();
}

/** They came before the reader's eyes. What was marked as unread on purpose stays so. @param {string[]} ids */
export function noticed(ids) {
  const unseen = ids.filter((id) => {
    const session = viewOf(id);
    return session && !isSeen(session) && (marks.peek().get(id) ?? 0) >= 0;
  });
  put(unseen.map((id) => [id, now(id, viewOf(id))]));
}

/** The reader has opened it. @param {string} id */
export function markSeen(id) {
  const session = viewOf(id);
  if (session && !isSeen(session)) put([[id, now(id, session)]]);
}

/** Read as unread, or the other way round. @param {string} id */
export function toggleSeen(id) {
  const session = viewOf(id);
  if (session) put([[id, isSeen(session) ? -now(id, session) : now(id, session)]]);
}

export function markAllSeen() {
  put([...here.needs_you.peek(), ...here.delivered.peek(), ...here.autonomous.peek()]
    .filter(({ view }) => !isSeen(view.peek()))
    .map(({ id, view }) => [id, now(id, view.peek())]));
}

/** How many of each section. Counted once a second: to follow each of thousands of sessions would cost more than it tells. @type {Record<Group, ReadonlySignal<number>>} */
export const unreadIn = { needs_you: counted("needs_you"), autonomous: counted("autonomous"), delivered: counted("delivered") };
export const unread = computed(() => unreadIn.needs_you.value + unreadIn.autonomous.value + unreadIn.delivered.value);

/** @param {Group} group */
function counted(group) {
  return computed(() => {
    void hubNow.value;
    return here[group].value.reduce((count, { view }) => count + (isSeen(view.peek()) ? 0 : 1), 0);
  });
}
