// @ts-check
/** What the command palette finds: sessions, views, saved views, values to narrow by, commands. */
import { sound } from "./alerts.js";
import { go, openSession, view } from "./address.js";
import { plain } from "./asks.js";
import { tally } from "./facets.js";
import { allSessions } from "./roster.js";
import { me } from "./fetching.js";
import { FACETS, clearFilters, filtering, filters, searchOf, toggle } from "./filters.js";
import { show } from "./keys.js";
import { signOut } from "./leaving.js";
import { DENSITIES, THEMES, density, setDensity, setTheme, theme } from "./look.js";
import { bestOf, field, firstOf, fit, wordsOf } from "./rank.js";
import { openView, saved } from "./saved.js";
import { markAllSeen, unread } from "./seen.js";
import { GROUPS, iconOf, labelOf, toneOf } from "./states.js";
import { titleOf } from "./views/card.js";
import { FACET_LOOK, nameOf } from "./views/naming.js";
import { PLACES } from "./views/nav.js";
import { holdsOf } from "./views/saved.js";

/** @import { Tally } from "./facets.js" */
/** @import { Facet } from "./filters.js" */
/** @import { Field } from "./rank.js" */
/** @import { SessionView } from "./wire.js" */

/**
 * key: of no other. tag: a word that stands out. does: said once it is done, the palette stays; else it closes.
 * @typedef {{key: string, icon: string, title: string, note?: string, tag?: string, tone?: string, keys?: string, run: () => unknown, does?: string}} Option
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
    people.slice(at, at + AT_ONCE).forEach(fields);
    await new Promise((done) => setTimeout(done));
  }
}

/** @param {string} sought @returns {Family[]} the best first, and within each */
export function found(sought) {
  const words = wordsOf(sought);
  const { people, counts } = stocked();
  const any = words.length > 0;
  const families = [
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
function fields(session) {
  const known = fieldsOf.get(session);
  if (known) return known;
  const { project, host, state, display, branch, session_id } = session;
  const made = [field(titleOf(session), 3), field(project, 2), field(host, 2), field(display?.label ?? labelOf(state), 1), field(state.state, 1), field(branch, 1), field(session_id, 1)];
  fieldsOf.set(session, made);
  return made;
}

/** Those who need someone first, then how well they fit. @param {SessionView[]} people @param {string[]} words @returns {Family} */
function sessionsFor(people, words) {
  const any = words.length > 0;
  const found = any ? bestOf(people, (session) => fit(words, fields(session))) : people.filter(({ state }) => state.group === "needs_you").map((one) => ({ one, score: 0 }));
  const urgency = (/** @type {SessionView} */ { urgency, display }) => display?.urgency_hint ?? urgency ?? 99;
  const rank = (/** @type {SessionView} */ { reachability, state }) => (reachability === "offline" ? 3 : GROUPS.indexOf(state.group));
  const score = found.reduce((best, each) => Math.max(best, each.score), 0) * SESSIONS_FIRST;
  const ranked = firstOf(found, any ? MOST.sessions : AT_FIRST, (a, b) => rank(a.one) - rank(b.one) || b.score - a.score || urgency(a.one) - urgency(b.one) || a.one.state.since - b.one.state.since);
  return { name: "Sessions", options: ranked.map(({ one }) => sessionOption(one)), score };
}

/** @param {SessionView} session @param {string} [tag] @returns {Option} */
export function sessionOption(session, tag) {
  const { id, state, project, host, title, reachability } = session;
  const label = session.display?.label ?? labelOf(state);
  const note = [plain(label, 60), title && project && plain(project, 40), plain(host, 40)].filter(Boolean).join(" · ");
  return { key: `session ${id}`, icon: iconOf(state), title: titleOf(session), note, tone: toneOf(state), tag: tag ?? (reachability === "offline" ? "offline" : undefined), run: () => openSession(id) };
}

const KEYS = /** @type {Record<string, string>} */ ({ "/": "g b", "/list": "g l", "/hosts": "g h", "/usage": "g u", "/history": "g y", "/settings": "g s" });

/** @type {Option[]} */
const VIEWS = [
  ...PLACES,
  { path: "/by/host", name: "Board by host", icon: "server" },
  { path: "/by/project", name: "Board by project", icon: "folder" },
].map(({ path, name, icon }) => ({ key: `view ${path}`, icon, title: name, keys: KEYS[path], run: () => go(path) }));

/** @returns {Option[]} */
function savedOnes() {
  return saved.value.map((each) => ({ key: `saved ${each.name}`, icon: "star", title: each.name, note: holdsOf(each), run: () => openView(each) }));
}

/** "host: alpha". Of thousands of values only those are looked at that the last word is in. @param {Tally["counts"]} counts @param {string[]} words @returns {Option[]} */
function narrowing(counts, words) {
  const held = FACETS.flatMap((facet) => filters.value[facet].map((value) => narrowOption(facet, value, undefined)));
  if (words.length === 0) return held;
  const wanted = (words.at(-1) ?? "").replace(/^[a-z]+:/, "");
  const all = FACETS.flatMap((facet) => [...counts[facet]].filter(([value]) => !filters.value[facet].includes(value) && (words.length > 1 || !wanted || `${facet} ${nameOf(facet, value)}`.toLowerCase().includes(wanted))).map(([value, count]) => narrowOption(facet, value, count)));
  return [...held, ...all];
}

/** @param {Facet} facet @param {string} value @param {number | undefined} count nothing: it narrows already @returns {Option} */
function narrowOption(facet, value, count) {
  const run = () => {
    toggle(facet, value);
    if (!["board", "list", "host", "project"].includes(view.value)) go(`/${searchOf(filters.value)}`);
  };
  const note = count === undefined ? "narrows now" : `${count.toLocaleString()} ${count === 1 ? "session" : "sessions"}`;
  return { key: `facet ${facet} ${value}`, icon: count === undefined ? "x" : FACET_LOOK[facet].icon, title: `${count === undefined ? "Remove " : ""}${facet}: ${nameOf(facet, value)}`, note, run };
}

const THEME_LOOK = { system: { icon: "monitor", title: "Theme: as the system" }, light: { icon: "sun", title: "Theme: light" }, dark: { icon: "moon", title: "Theme: dark" } };
const SOUND = /** @type {Record<string, string>} */ ({ off: "off", hidden: "while the page is hidden", always: "always" });

/** @returns {Option[]} */
function commands() {
  const now = (/** @type {boolean} */ is) => (is ? "now" : undefined);
  return [
    ...(filtering.value ? [{ key: "clear", icon: "x", title: "Clear all filters", run: clearFilters }] : []),
    ...THEMES.map((each) => ({ key: `theme ${each}`, ...THEME_LOOK[each], tag: now(theme() === each), run: () => setTheme(each) })),
    ...DENSITIES.map((each) => ({ key: `density ${each}`, icon: "layers", title: `Density: ${each}`, tag: now(density() === each), run: () => setDensity(each) })),
    ...Object.keys(SOUND).map((each) => ({ key: `sound ${each}`, icon: each === "off" ? "volume-x" : "volume-2", title: `Sound: ${SOUND[each]}`, tag: now(sound.value === each), run: () => (sound.value = each) })),
    // Browsers give the clipboard only to https and loopback.
    ...(unread.peek() > 0 ? [{ key: "read", icon: "check", title: "Mark all as read", note: `${unread.peek().toLocaleString()} unread`, run: markAllSeen }] : []),
    ...(navigator.clipboard ? [{ key: "copy", icon: "copy", title: "Copy the link to this view", does: "Link copied", run: () => navigator.clipboard.writeText(location.href) }] : []),
    { key: "keys", icon: "keyboard", title: "Keyboard shortcuts", keys: "?", run: () => show("shortcuts") },
    ...(me.value?.sign_in ? [{ key: "out", icon: "log-out", title: "Sign out", note: me.value.name, run: leave }] : []),
  ];
}

async function leave() {
  const why = await signOut();
  if (why) throw new Error(why);
}
