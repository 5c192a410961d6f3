// @ts-check
/** Hosts and witnesses in words: what is wrong with each, which comes first, what of its signals is missing. Pure. */
import { capital, duration, moment, plain } from "./format.js";

/** @import { GapView, HostView, HostWitness, Reachability, SessionView, WitnessView } from "../wire.js" */

const CONDITIONS = ["offline", "late", "trouble", "live"];
/** A clock this far off misleads whoever compares times. */
export const CLOCK_OFF_MS = 5000;

/** @param {HostView} host @returns {string} what is wrong with it besides its silence, if anything */
export function troubleOf(host) {
  if (host.problem) return host.problem;
  const off = host.clock_offset_ms ?? 0;
  if (Math.abs(off) <= CLOCK_OFF_MS) return "";
  return `its clock is ${duration(Math.abs(off))} ${off > 0 ? "ahead" : "behind"}`;
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

/** @type {Record<string, string>} */
const NAMES = {
  hook: "hooks",
  transcript: "transcript",
  registry: "session registry",
  process: "process table",
  statusline: "status line",
  shim: "session start hook",
};

/** @param {string} name as it stands within a sentence */
export function witnessName(name) {
  return Object.hasOwn(NAMES, name) ? NAMES[name] : plain(name);
}

/** Which witness decided. @type {Record<string, string>} */
const SOURCES = {
  hook: "Known from its hooks",
  transcript: "Known from its transcript",
  registry: "Known from its session registry",
  process: "Known from the process table",
  fallback: "A guess: no witness says more",
};

/** @param {string} source */
export function whoTold(source) {
  return Object.hasOwn(SOURCES, source) ? SOURCES[source] : `Known from the ${plain(source)}`;
}

/** @param {string} source @param {number} confidence 0..1 */
export function sourceWords(source, confidence) {
  return `${whoTold(source)}, ${Math.round(confidence * 100)} % sure`;
}

/**
 * label: the few words of a chip. text: what it means. commands: the next step.
 * @typedef {object} Problem
 * @property {string} label
 * @property {string} text
 * @property {string[]} commands
 */

/** @type {Record<string, Omit<Problem, "label">>} */
const KNOWN_PROBLEMS = {
  "hook missing": {
    text:
      "The hooks of this session do not report, while other witnesses do: they are missing from Claude Code's " +
      "settings, or switched off. The session is still followed, but its permission requests show late, and " +
      "with an older Claude Code not at all.",
    commands: ["adsum doctor", "adsum hooks install"],
  },
  "hook doubled": {
    text:
      "Every hook reports twice, for they are installed in two places. Nothing is counted twice here, but the " +
      "agent runs both.",
    commands: ["adsum doctor"],
  },
};

/** @param {WitnessView} witness @returns {Problem | undefined} */
export function problemOf({ name, problem }) {
  if (!problem) return undefined;
  const key = `${name} ${problem}`;
  const { text, commands } = Object.hasOwn(KNOWN_PROBLEMS, key)
    ? KNOWN_PROBLEMS[key]
    : {
        text: `There is a problem with this witness: ${plain(problem)}.`,
        commands: ["adsum hooks status"],
      };
  return { label: capital(`${witnessName(name)} ${plain(problem)}`), text, commands };
}

const WITNESS_STATES = {
  ok: { icon: "check", words: "heard" },
  silent: { icon: "circle-dashed", words: "silent" },
  missing: { icon: "circle-alert", words: "missing" },
  trouble: { icon: "triangle-alert", words: "trouble" },
};

/** A host witness's state that is left out is `silent`. @param {HostWitness} witness */
export function witnessState({ state = "silent" }) {
  return Object.hasOwn(WITNESS_STATES, state)
    ? WITNESS_STATES[/** @type {keyof typeof WITNESS_STATES} */ (state)]
    : { icon: "circle-question-mark", words: plain(state) };
}

/** @param {HostWitness} witness it asks for someone; silence is no fault */
export function isUnwell({ state }) {
  return state === "missing" || state === "trouble";
}

/** @type {Record<string, string>} */
const GAP_REASONS = {
  cap: "its disk allowance was used up",
  corrupt: "its spool was damaged",
  copy: "an older copy of its disk was restored",
  rollback: "an older copy of its disk was restored",
  retention: "it was older than what that machine keeps",
  lost: "its spool was deleted",
  undecodable: "entries could not be read",
};

/** @param {GapView} gap */
export function gapWords({ at, reason, numbers = 0 }) {
  const why = Object.hasOwn(GAP_REASONS, reason) ? GAP_REASONS[reason] : plain(reason).replaceAll("_", " ");
  const what = numbers > 0 ? `${numbers.toLocaleString()} signal${numbers > 1 ? "s" : ""} from` : "Something";
  return `${what} before ${moment(at)} ${numbers > 1 ? "are" : "is"} missing: ${why}.`;
}

/**
 * Why a session is incomplete: its host's gaps since it began, the latest first.
 * @param {SessionView} session
 * @param {GapView[]} gaps
 */
export function missingOf({ started_at }, gaps) {
  const since = gaps.filter((gap) => gap.at >= (started_at ?? 0));
  const told = (since.length > 0 ? since : gaps.slice(-1)).slice(-3).reverse().map(gapWords);
  return told.join(" ") || "Part of its activity is missing.";
}

/**
 * In percent; never all of it, for what is read has still to be told.
 * @param {import("../wire.js").ScanProgress} scan
 */
export function shareOf({ files, files_done, bytes, bytes_done }) {
  const share = bytes > 0 ? bytes_done / bytes : files > 0 ? files_done / files : 0;
  return Math.min(99, Math.floor(100 * Math.min(1, share)));
}
