// @ts-check
/** What this reader has not seen yet, what a tab in the background shows of it, and what is put aside. */
import { computed, effect, signal } from "../vendor/signals-core.js";
import { sendToHub } from "./api.js";
import { hubNow, linkState, stale } from "./link.js";
import { view } from "./navigation.js";
import { countOf, entryOf, here, known, whole } from "./roster.js";
import { routeOf } from "./routes.js";

/** @import { ReadonlySignal } from "../vendor/signals-core.js" */
/** @import { Group, SessionView } from "../wire.js" */

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
    return new Map(
      Object.entries(kept)
        .filter((mark) => typeof mark[1] === "number")
        .slice(-MOST),
    );
  } catch {
    return new Map();
  }
}

/**
 * The later word of two windows holds.
 * @param {ReadonlyMap<string, number>} one
 * @param {Iterable<[string, number]>} other
 */
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

/**
 * A time later than the mark that was there and than what is looked at.
 * @param {SessionView | undefined} session
 * @param {string} id
 */
function now(id, session) {
  return Math.max(hubNow.peek(), session?.state.since ?? 0, Math.abs(marks.peek().get(id) ?? 0) + 1);
}

/** @param {string} id */
function sessionOf(id) {
  return entryOf(id)?.view.peek();
}

/** They came before the reader's eyes. What was marked as unread on purpose stays so. @param {string[]} ids */
export function markNoticed(ids) {
  const unseen = ids.filter((id) => {
    const session = sessionOf(id);
    return session && !isSeen(session) && (marks.peek().get(id) ?? 0) >= 0;
  });
  put(unseen.map((id) => [id, now(id, sessionOf(id))]));
}

/** The reader has opened it. @param {string} id */
export function markSeen(id) {
  const session = sessionOf(id);
  if (session && !isSeen(session)) put([[id, now(id, session)]]);
}

/** Read as unread, or the other way round. @param {string} id */
export function toggleSeen(id) {
  const session = sessionOf(id);
  if (session) put([[id, isSeen(session) ? -now(id, session) : now(id, session)]]);
}

export function markAllSeen() {
  put(
    [...here.needs_you.peek(), ...here.delivered.peek(), ...here.autonomous.peek()]
      .filter(({ view }) => !isSeen(view.peek()))
      .map(({ id, view }) => [id, now(id, view.peek())]),
  );
}

/**
 * How many of each section. Counted once a second: to follow each of thousands of sessions would cost more
 * than it tells.
 * @type {Record<Group, ReadonlySignal<number>>}
 */
export const unreadIn = {
  needs_you: counted("needs_you"),
  autonomous: counted("autonomous"),
  delivered: counted("delivered"),
};

export const unread = computed(
  () => unreadIn.needs_you.value + unreadIn.autonomous.value + unreadIn.delivered.value,
);

/** @param {Group} group */
function counted(group) {
  return computed(() => {
    void hubNow.value;
    return here[group].value.reduce((count, { view }) => count + (isSeen(view.peek()) ? 0 : 1), 0);
  });
}

/** What the page is about, before the count: the title of the session that is open. */
export const subject = signal("");
const FRESH = `<circle cx="26" cy="6" r="6" fill="#2563eb" stroke="#fff" stroke-width="2"/>`;

/** As in icon.svg. */
const OURS =
  `<rect width="32" height="32" rx="9" fill="#1b1c20"/>` +
  `<circle cx="15" cy="16.5" r="6.5" fill="none" stroke="#fafaf9" stroke-width="3"/>` +
  `<path d="M21.5 10v13" stroke="#fafaf9" stroke-width="3" stroke-linecap="round"/>` +
  `<circle cx="15" cy="16.5" r="2.2" fill="#f5a524"/>`;

/** @param {number} count @param {boolean} stale @param {boolean} fresh something is unread */
function favicon(count, stale, fresh) {
  const text = count > 99 ? "99" : String(count);
  const size = text.length > 1 ? 17 : 21;
  const counted =
    `<rect width="32" height="32" rx="9" fill="${stale ? "#71717a" : "#b45309"}"/>` +
    `<text x="16" y="${size > 20 ? 23.5 : 22}" text-anchor="middle" font-family="system-ui,sans-serif"` +
    ` font-size="${size}" font-weight="700" fill="#fff">${text}</text>`;
  const inner = (count > 0 ? counted : OURS) + (fresh ? FRESH : "");
  const drawn = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${inner}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(drawn)}`;
}

/**
 * On the icon of the installed app: the count, else a dot for what is unread.
 * @param {number} count
 * @param {boolean} fresh
 */
async function badge(count, fresh) {
  try {
    if (count > 0) await navigator.setAppBadge?.(count);
    else if (fresh) await navigator.setAppBadge?.();
    else await navigator.clearAppBadge?.();
  } catch {
    // Not installed, or not allowed.
  }
}

export function showAttention() {
  const link = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  const quiet = link.href;
  const needing = computed(() => countOf("needs_you"));
  const fresh = computed(() => unread.value > 0);
  const old = computed(() => known.value && stale.value);
  effect(() => {
    const counted = needing.value > 0 ? `(${needing.value}) Adsum` : "Adsum";
    const why = old.value && (linkState.value.phase === "live" ? "Stale" : "Offline");
    const { title, groupedBy } = routeOf(view.value);
    document.title = [why, subject.value || (!groupedBy && title), counted].filter(Boolean).join(" \u00b7 ");
  });
  effect(() => {
    link.href = needing.value > 0 || fresh.value ? favicon(needing.value, old.value, fresh.value) : quiet;
  });
  effect(() => void badge(needing.value, fresh.value));
}

/** Whether there is anything to say of what was decided here. */
export const saying = signal(false);

/** @typedef {"dismiss" | "archive" | "restore"} Verb */
/**
 * What was done last, or why it was not.
 * @typedef {{id: string, title: string, verb: Verb, why?: string}} Done
 */

/** For so long it can be taken back where it is said. */
const SAID_MS = 8000;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** What was put aside last. */
export const done = signal(/** @type {Done | undefined} */ (undefined));

/** @param {Done | undefined} what */
function say(what) {
  clearTimeout(timer);
  done.value = what;
  if (what) timer = setTimeout(() => (done.value = undefined), SAID_MS);
}

/** @param {string} id @param {string} title @param {Verb} verb */
export async function putAside(id, title, verb) {
  const path = `/api/v1/sessions/${encodeURIComponent(id)}/${verb}`;
  const { why } = await sendToHub("POST", path);
  say({ id, title, verb, why });
}

/** Of what was done last, as long as that is said. */
export function undo() {
  const last = done.value;
  if (last && last.verb !== "restore" && !last.why) putAside(last.id, last.title, "restore");
}
