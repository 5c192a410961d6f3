// @ts-check
/** The witnesses in words: what each is called, what is wrong with it, and what to do about it. Pure. */
import { plain } from "./asks.js";

/** @import { HostWitness, WitnessView } from "./wire.js" */

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
export function nameOf(name) {
  return Object.hasOwn(NAMES, name) ? NAMES[name] : plain(name);
}

/** @param {string} words */
export function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Which witness decided. @type {Record<string, string>} */
const SOURCES = {
  hook: "Known from its hooks",
  transcript: "Known from its transcript",
  registry: "Known from Claude Code's session registry",
  process: "Known from the process table",
  fallback: "A guess, since no witness says more",
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
const KNOWN = {
  "hook missing": {
    text: "Others tell of this session, its hooks do not: they are out of Claude Code's settings, or switched off for it. What it does is still seen; a permission it asks for shows a moment later, with an older Claude Code not at all.",
    commands: ["adsum doctor", "adsum hooks install"],
  },
  "hook doubled": {
    text: "Every hook comes twice: they are installed in two places. Nothing is counted twice here, yet the agent pays for both.",
    commands: ["adsum doctor"],
  },
};

/** @param {WitnessView} witness @returns {Problem | undefined} */
export function problemOf({ name, problem }) {
  if (!problem) return undefined;
  const key = `${name} ${problem}`;
  const { text, commands } = Object.hasOwn(KNOWN, key)
    ? KNOWN[key]
    : { text: `Something is wrong with this witness of the session: ${plain(problem)}.`, commands: ["adsum hooks status"] };
  return { label: capital(`${nameOf(name)} ${plain(problem)}`), text, commands };
}

const STATES = {
  ok: { icon: "check", words: "heard" },
  silent: { icon: "circle-dashed", words: "silent" },
  missing: { icon: "circle-alert", words: "missing" },
  trouble: { icon: "triangle-alert", words: "trouble" },
};

/** A host witness's state that is left out is `silent`. @param {HostWitness} witness */
export function stateOf({ state = "silent" }) {
  return Object.hasOwn(STATES, state)
    ? STATES[/** @type {keyof typeof STATES} */ (state)]
    : { icon: "circle-question-mark", words: plain(state) };
}

/** @param {HostWitness} witness it asks for someone; silence is no fault */
export function isUnwell({ state }) {
  return state === "missing" || state === "trouble";
}

/** @param {HostWitness} witness the collector's own sentence, else ours */
export function noteOf(witness) {
  if (witness.note) return plain(witness.note);
  return witness.state === "missing" ? "It should report here and does not: see `adsum hooks status`." : "It had trouble.";
}

/** @param {Record<string, number>} counts @returns {string} such as "unreadable line × 2, too long × 1", each unbroken */
export function countsOf(counts) {
  return Object.entries(counts)
    .map(([cause, times]) => `${plain(cause).replaceAll("_", " ")}\u00a0\u00d7\u00a0${times.toLocaleString()}`)
    .join(", ");
}
