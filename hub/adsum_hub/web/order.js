// @ts-check
/** Which section a session stands in, who comes before whom, and what a filter keeps. Pure. */

import { isUnwell } from "./witnesses.js";

/** @import { HostView, Reachability, SessionView } from "./wire.js" */

const UNKNOWN_URGENCY = 5;
const CONDITIONS = ["offline", "late", "trouble", "live"];
/** A clock this far off misleads whoever compares times. */
const CLOCK_OFF_MS = 5000;

/**
 * What decides a session's place within its section.
 * @typedef {object} Rank
 * @property {string} id
 * @property {number} urgency 0 outside Needs you
 * @property {number} time
 */

/**
 * In Needs you: most urgent, then longest waiting. Elsewhere: who came into the section last
 * stands first; not who changed last, for working sessions change every second and a list that
 * reshuffles all day cannot be read.
 * @param {SessionView} session
 * @param {number} arrived
 * @returns {Rank}
 */
export function rankOf(session, arrived) {
  return session.state.group === "needs_you"
    ? { id: session.id, urgency: session.display?.urgency_hint ?? session.urgency ?? UNKNOWN_URGENCY, time: session.state.since }
    : { id: session.id, urgency: 0, time: -arrived };
}

/** @param {Rank} a @param {Rank} b */
export function byRank(a, b) {
  return a.urgency - b.urgency || a.time - b.time || (a.id < b.id ? -1 : 1);
}

/** @param {HostView} host @returns {string} what is wrong with it besides its silence, if anything */
export function troubleOf(host) {
  if (host.problem) return host.problem;
  const off = host.clock_offset_ms ?? 0;
  if (Math.abs(off) <= CLOCK_OFF_MS) return "";
  return `its clock is ${farWords(off)} ${off > 0 ? "ahead" : "behind"}`;
}

/** @param {number} off ms, either way @returns {string} such as 42 s, 43 min, 5 h, 3 days */
export function farWords(off) {
  const seconds = Math.round(Math.abs(off) / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400).toLocaleString()} days`;
}

/** @param {HostView} host @returns {Reachability | "trouble"} */
export function conditionOf(host) {
  const wrong = troubleOf(host) || (host.witnesses ?? []).some(isUnwell);
  return host.reachability === "live" && wrong ? "trouble" : host.reachability;
}

/** @param {HostView} a @param {HostView} b those with something wrong first, then by name */
export function byTrouble(a, b) {
  const order = (/** @type {HostView} */ host) => CONDITIONS.indexOf(conditionOf(host));
  return order(a) - order(b) || a.label.localeCompare(b.label) || (a.id < b.id ? -1 : 1);
}

/**
 * Every word of the query must be somewhere in what the card shows.
 * @param {SessionView} session
 * @param {string} query
 */
export function matches(session, query) {
  const text = [
    session.title, session.project, session.host, session.branch, session.model, session.cwd,
    session.session_id, session.state.state, session.state.label, session.display?.label, session.agent,
  ].join("\n").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
