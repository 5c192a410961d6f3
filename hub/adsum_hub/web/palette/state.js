// @ts-check
/** What the command palette finds, and how well it fits what was typed. */
import { decidedOf, keyOf, whyNot } from "../control/state.js";
import { me } from "../core/api.js";
import { markAllSeen, unread } from "../core/attention.js";
import { clearFilters, FACET_LOOK, FACETS, filtering, filters, searchOf, toggle, valueName } from "../core/filters.js";
import { plain, visible } from "../core/format.js";
import { go, opened, openSession, show, view } from "../core/navigation.js";
import { DENSITIES, density, setDensity, setTheme, theme, THEMES } from "../core/preferences.js";
import { openRequests } from "../core/requests.js";
import { allSessions } from "../core/roster.js";
import { isList, pathTo, PLACES, ROUTES } from "../core/routes.js";
import { GROUPS, iconOf, labelOf, titleOf, toneOf } from "../core/states.js";
import { holdsOf, openView, saved, tally } from "../filter/state.js";
import { signOut, sound } from "../notifications/state.js";

/** @import { Facet } from "../core/filters.js" */
/** @import { Tally } from "../filter/state.js" */
/** @import { SessionView } from "../wire.js" */

/**
 * key: of no other. tag: a word that stands out. does: said once it is done, the palette stays; else it closes.
 * @typedef {{key: string, icon: string, title: string, note?: string, tag?: string, tone?: string, keys?: string,
 *   run: () => unknown, does?: string}} Option
 */
/** score: of the best of them. @typedef {{name: string, options: Option[], score: number}} Family */

const MOST = { sessions: 12, others: 8 };
/** Those shown before anything is typed. */
const AT_FIRST = 5;
const EVERY_MS = 1000;
const AT_ONCE = 250;
/** What people look for most. */
const SESSIONS_FIRST = 1.5;
let stock = { people: /** @type {SessionView[]} */ ([]), counts: tally([], filters.peek()).counts, at: -Infinity };

/** Thousands are not gone through for each letter. */
function stocked() {
  const now = performance.now();
  if (now - stock.at < EVERY_MS) return stock;
  const people = allSessions();
  return (stock = { people, counts: tally(people, filters.peek()).counts, at: now });
}

/** Before the first letter, and not all in one frame. */
export async function prepare() {
  const { people } = stocked();
  for (let at = 0; at < people.length; at += AT_ONCE) {
    people.slice(at, at + AT_ONCE).forEach(fieldsFor);
    await new Promise((done) => setTimeout(done));
  }
}

/** @param {string} sought @returns {Family[]} the best first, and within each */
export function found(sought) {
  const words = wordsOf(sought);
  const { people, counts } = stocked();
  const any = words.length > 0;
  const families = [
    best("Decide", words, people.flatMap(toDecide), any ? MOST.others : AT_FIRST),
    sessionsFor(people, words),
    best("Saved views", words, savedOnes(), MOST.others),
    best("Views", words, VIEWS, MOST.others),
    best("Filters", words, any || filtering.value ? narrowing(counts, words) : [], MOST.others),
    best("Commands", words, commands(), any ? MOST.others : 20),
  ];
  return families.filter(({ options }) => options.length > 0).sort((a, b) => b.score - a.score);
}

/** @param {string} name @param {string[]} words @param {Option[]} options @param {number} most @returns {Family} */
function best(name, words, options, most) {
  if (words.length === 0) return { name, options: options.slice(0, most), score: 0 };
  const fitting = bestOf(options, ({ title, note }) => fit(words, [field(title, 2), field(note, 1)]));
  const found = firstOf(fitting, most, (a, b) => b.score - a.score);
  return { name, options: found.map(({ one }) => one), score: found[0]?.score ?? 0 };
}

/** A view of a session never changes, another takes its place. @type {WeakMap<SessionView, Field[]>} */
const fieldsOf = new WeakMap();

/** @param {SessionView} session */
function fieldsFor(session) {
  const known = fieldsOf.get(session);
  if (known) return known;
  const { project, host, state, display, branch, session_id } = session;
  const made = [
    field(titleOf(session), 3),
    field(project, 2),
    field(host, 2),
    field(display?.label ?? labelOf(state), 1),
    field(state.state, 1),
    field(branch, 1),
    field(session_id, 1),
  ];
  fieldsOf.set(session, made);
  return made;
}

/**
 * Those who need someone first, then how well they fit.
 * @param {SessionView[]} people
 * @param {string[]} words
 * @returns {Family}
 */
function sessionsFor(people, words) {
  const any = words.length > 0;
  const found = any
    ? bestOf(people, (session) => fit(words, fieldsFor(session)))
    : people.filter(({ state }) => state.group === "needs_you").map((one) => ({ one, score: 0 }));
  const section = (/** @type {SessionView} */ { reachability, state }) =>
    reachability === "offline" ? GROUPS.length : GROUPS.indexOf(state.group);
  const score = found.reduce((best, each) => Math.max(best, each.score), 0) * SESSIONS_FIRST;
  const ranked = firstOf(
    found,
    any ? MOST.sessions : AT_FIRST,
    (a, b) => section(a.one) - section(b.one) || b.score - a.score || a.one.rank - b.one.rank,
  );
  return { name: "Sessions", options: ranked.map(({ one }) => sessionOption(one)), score };
}

/** @param {SessionView} session @param {string} [tag] @returns {Option} */
export function sessionOption(session, tag) {
  const { id, state, project, host, title, reachability } = session;
  const label = session.display?.label ?? labelOf(state);
  const note = [plain(label, 60), title && project && plain(project, 40), plain(host, 40)]
    .filter(Boolean)
    .join(" · ");
  return {
    key: `session ${id}`,
    icon: iconOf(state),
    title: titleOf(session),
    note,
    tone: toneOf(state),
    tag: tag ?? (reachability === "offline" ? "offline" : undefined),
    run: () => openSession(id),
  };
}

/** Of what is no permission; as the board has them. @type {Record<string, string>} */
const WORDS = { question: "Asked you a question", plan: "Plan ready for review", dialog: "A dialog is open" };

/**
 * What a session asks, if this reader may decide it. It leads there, where keys decide: what is decided must have been
 * in sight. To no button, which an Enter that is held down would press.
 * @param {SessionView} session @returns {Option[]}
 */
function toDecide(session) {
  return openRequests(session)
    .filter((request) => !decidedOf(session, request) && !whyNot(session, request))
    .map((request) => ({
      key: `decide ${keyOf(session, request)}`,
      icon: "hand",
      title: `Decide: ${WORDS[request.kind] ?? `Needs permission: ${plain(request.tool ?? "a tool", 40)}`}`,
      note: [...new Set([leftToRight(request.summary ?? ""), titleOf(session), plain(session.host, 40)])]
        .filter(Boolean)
        .join(" · "),
      run: () => {
        openSession(session.id);
        leadTo(session.id, 300);
      },
    }));
}

/** @param {string} code */
function leftToRight(code) {
  const text = visible(code, 120);
  return /[^\0-\x7f]/.test(text) ? `\u202d${text}\u202c` : text;
}

/** @param {string} id @param {number} frames for which it is waited: what decides is loaded late */
function leadTo(id, frames) {
  const asked = document.querySelector(":is(.sheet, .session) .request:has(.do)");
  if (asked instanceof HTMLElement) {
    asked.tabIndex = -1;
    return asked.focus();
  }
  if (frames > 0 && opened.value === id) requestAnimationFrame(() => leadTo(id, frames - 1));
}

/** @type {Option[]} */
const VIEWS = [...PLACES, ...ROUTES.filter(({ of }) => of)].map(({ path, title, icon, key, of }) => ({
  key: `view ${path}`,
  icon,
  title: of ? `Board ${title.toLowerCase()}` : title,
  keys: key && `g ${key}`,
  run: () => go(path),
}));

/** @returns {Option[]} */
function savedOnes() {
  return saved.value.map((each) => ({
    key: `saved ${each.name}`,
    icon: "star",
    title: each.name,
    note: holdsOf(each),
    run: () => openView(each),
  }));
}

/**
 * "host: alpha". Of thousands of values only those are looked at that the last word is in.
 * @param {Tally["counts"]} counts
 * @param {string[]} words
 * @returns {Option[]}
 */
function narrowing(counts, words) {
  const held = FACETS.flatMap((facet) =>
    filters.value[facet].map((value) => narrowOption(facet, value, undefined)),
  );
  if (words.length === 0) return held;
  const wanted = (words.at(-1) ?? "").replace(/^[a-z]+:/, "");
  const all = FACETS.flatMap((facet) =>
    [...counts[facet]]
      .filter(
        ([value]) =>
          !filters.value[facet].includes(value) &&
          (words.length > 1 || !wanted || `${facet} ${valueName(facet, value)}`.toLowerCase().includes(wanted)),
      )
      .map(([value, count]) => narrowOption(facet, value, count)),
  );
  return [...held, ...all];
}

/**
 * @param {Facet} facet
 * @param {string} value
 * @param {number | undefined} count nothing: it narrows already
 * @returns {Option}
 */
function narrowOption(facet, value, count) {
  const run = () => {
    toggle(facet, value);
    if (!isList(view.value)) go(pathTo("board") + searchOf(filters.value));
  };
  const note =
    count === undefined ? "active" : `${count.toLocaleString()} ${count === 1 ? "session" : "sessions"}`;
  return {
    key: `facet ${facet} ${value}`,
    icon: count === undefined ? "x" : FACET_LOOK[facet].icon,
    title: `${count === undefined ? "Remove " : ""}${facet}: ${valueName(facet, value)}`,
    note,
    run,
  };
}

const THEME_LOOK = {
  system: { icon: "monitor", title: "Theme: as the system" },
  light: { icon: "sun", title: "Theme: light" },
  dark: { icon: "moon", title: "Theme: dark" },
};

const SOUND = /** @type {Record<string, string>} */ ({
  off: "off",
  hidden: "while the page is hidden",
  always: "always",
});

/** @returns {Option[]} */
function commands() {
  const now = (/** @type {boolean} */ is) => (is ? "now" : undefined);
  return [
    ...(filtering.value ? [{ key: "clear", icon: "x", title: "Clear all filters", run: clearFilters }] : []),
    ...THEMES.map((each) => ({
      key: `theme ${each}`,
      ...THEME_LOOK[each],
      tag: now(theme() === each),
      run: () => setTheme(each),
    })),
    ...DENSITIES.map((each) => ({
      key: `density ${each}`,
      icon: "layers",
      title: `Density: ${each}`,
      tag: now(density() === each),
      run: () => setDensity(each),
    })),
    ...Object.keys(SOUND).map((each) => ({
      key: `sound ${each}`,
      icon: each === "off" ? "volume-x" : "volume-2",
      title: `Sound: ${SOUND[each]}`,
      tag: now(sound.value === each),
      run: () => (sound.value = each),
    })),
    // Browsers give the clipboard only to https and loopback.
    ...(unread.peek() > 0
      ? [
          {
            key: "read",
            icon: "check",
            title: "Mark all as read",
            note: `${unread.peek().toLocaleString()} unread`,
            run: markAllSeen,
          },
        ]
      : []),
    ...(navigator.clipboard
      ? [
          {
            key: "copy",
            icon: "copy",
            title: "Copy the link to this view",
            does: "Link copied",
            run: () => navigator.clipboard.writeText(location.href),
          },
        ]
      : []),
    { key: "keys", icon: "keyboard", title: "Keyboard shortcuts", keys: "?", run: () => show("shortcuts") },
    ...(me.value?.sign_in
      ? [{ key: "out", icon: "log-out", title: "Sign out", note: me.value.name, run: leave }]
      : []),
  ];
}

async function leave() {
  const why = await signOut();
  if (why) throw new Error(why);
}

/** Longer ones cost more than they tell. */
const LONGEST_TEXT = 300;
const SCATTERED = 0.1;
const LETTER = /[\p{L}\p{N}]/u;

/** @param {string} sought @returns {string[]} */
export function wordsOf(sought) {
  return sought.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
}

/** A text as it is searched, and how much a word in it tells. @typedef {[low: string, weight: number]} Field */

/** @param {string | null | undefined} text @param {number} weight @returns {Field} */
export function field(text, weight) {
  return [(text ?? "").slice(0, LONGEST_TEXT).toLowerCase(), weight];
}

/**
 * Every word must be found; at the start of the text it tells most, then at the start of a word, anywhere
 * within, and hardly anything with its letters scattered in the right order. 0: it does not fit.
 * @param {string[]} words lower case
 * @param {Field[]} fields in the first one letters may be scattered
 */
export function fit(words, fields) {
  let sum = 0;
  for (const word of words) {
    let best = 0;
    for (let i = 0; i < fields.length; i++) best = Math.max(best, fields[i][1] * near(word, fields[i][0]));
    if (best === 0 && word.length > 2 && isScattered(word, fields[0][0])) best = SCATTERED;
    if (best === 0) return 0;
    sum += best;
  }
  return sum;
}

/**
 * Those that fit; where words were found, none whose letters are but scattered.
 * @template T @param {T[]} all @param {(one: T) => number} score @returns {{one: T, score: number}[]}
 */
export function bestOf(all, score) {
  const scored = [];
  let best = 0;
  for (const one of all) {
    const found = score(one);
    if (found > 0) scored.push({ one, score: found });
    best = Math.max(best, found);
  }
  return best >= 1 ? scored.filter((each) => each.score >= 1) : scored;
}

/**
 * The first of them, in order: to sort thousands for a dozen takes longer than a frame.
 * @template T
 * @param {T[]} all
 * @param {number} most
 * @param {(a: T, b: T) => number} compare
 * @returns {T[]}
 */
export function firstOf(all, most, compare) {
  /** @type {T[]} */
  const first = [];
  for (const one of all) {
    if (first.length === most && compare(one, first[most - 1]) >= 0) continue;
    let at = first.length;
    while (at > 0 && compare(one, first[at - 1]) < 0) at -= 1;
    first.splice(at, 0, one);
    if (first.length > most) first.pop();
  }
  return first;
}

/** @param {string} word @param {string} text */
function near(word, text) {
  const first = text.indexOf(word);
  if (first < 0) return 0;
  if (first === 0) return text.length === word.length ? 10 : 8;
  let best = 3;
  for (let at = first; at > 0; at = text.indexOf(word, at + 1)) {
    if (LETTER.test(text[at - 1])) continue;
    if (!LETTER.test(text[at + word.length] ?? "")) return 7;
    best = 6;
  }
  return best;
}

/** @param {string} word @param {string} text */
function isScattered(word, text) {
  let at = -1;
  for (const letter of word) {
    at = text.indexOf(letter, at + 1);
    if (at < 0) return false;
  }
  return true;
}
