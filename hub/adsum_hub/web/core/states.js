// @ts-check
/** How groups, states and sessions look and read. A state not listed here looks like its group. */
import { plain } from "./format.js";

/** @import { AgentState, Group, SessionView } from "../wire.js" */

/** @type {readonly Group[]} */
export const GROUPS = ["needs_you", "autonomous", "delivered"];

/** @type {Record<Group, {title: string, short: string, icon: string}>} */
export const GROUP_LOOK = {
  needs_you: { title: "Needs you", short: "Needs you", icon: "hand" },
  autonomous: { title: "Working", short: "Working", icon: "activity" },
  delivered: { title: "Delivered", short: "Delivered", icon: "package-check" },
};

/** @type {Record<string, string>} */
const STATE_ICON = {
  needs_permission: "shield-alert",
  awaiting_input: "message-circle-question-mark",
  error: "octagon-x",
  awaiting_approval: "clipboard-check",
  budget_exceeded: "wallet",
  stuck: "hourglass",
  idle: "square-terminal",
  thinking: "pen-line",
  acting: "wrench",
  delegating: "network",
  compacting: "fold-vertical",
  retrying: "rotate-cw",
  waiting_for_agent: "timer",
  queued: "list-plus",
  unknown: "circle-question-mark",
  task_complete: "circle-check",
  session_ended: "power",
  suspended: "circle-pause",
  archived: "archive",
};

/** In a count; a state that is not here counts by its own name. @type {Record<string, string>} */
const COUNTED = {
  needs_permission: "permission",
  awaiting_input: "question",
  error: "failed",
  awaiting_approval: "plan",
  budget_exceeded: "over budget",
  acting: "running a tool",
  waiting_for_agent: "in the background",
  task_complete: "finished",
  session_ended: "closed",
  archived: "dismissed",
};

const NOUNS = new Set(["permission", "question", "plan"]);

/**
 * How many there are of each state, as they follow in the list, and of what waits for review.
 * @param {SessionView[]} sessions
 */
export function countsByState(sessions) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { state } of sessions) {
    const own = plain(state.state.replaceAll("_", " "));
    const words = Object.hasOwn(COUNTED, state.state) ? COUNTED[state.state] : own;
    counts.set(words, (counts.get(words) ?? 0) + 1);
  }
  const reviews = sessions.filter(({ review }) => review).length;
  // Of one kind alone the count beside it says all.
  const told = counts.size > 1 ? [...counts] : [];
  if (reviews > 0) told.push(["to review", reviews]);
  const words = told.map(([one, count]) => `${count.toLocaleString()} ${one}${count > 1 && NOUNS.has(one) ? "s" : ""}`);
  // A line breaks between two of them only.
  return words.map((each) => each.replaceAll(" ", "\u00a0")).join(" · ");
}

/** Why the first card of Needs you stands first. @type {Record<string, string>} */
const REASON = {
  needs_permission: "blocked until you allow or deny",
  awaiting_input: "blocked on your answer",
  error: "stopped by an error",
  awaiting_approval: "waits for your approval",
  budget_exceeded: "over its budget",
  stuck: "no sign of life",
  idle: "has finished its turn",
};

/** @param {AgentState} state opened, and nobody has asked anything of it yet */
export function isNew(state) {
  return state.context?.prompted === false;
}

/** @param {AgentState} state its process has gone, and its children with it */
export function isOver({ state }) {
  return state === "session_ended" || state === "suspended";
}

/** What a human is to do, and where. @param {AgentState} state */
export function remedyOf(state) {
  if (state.state === "error" || state.state === "stuck") return "Check its terminal";
  if (state.state === "idle") return "Enter its next prompt in its terminal";
  return "Answer it in its terminal";
}

/** @param {AgentState} state */
export function iconOf(state) {
  return Object.hasOwn(STATE_ICON, state.state) ? STATE_ICON[state.state] : GROUP_LOOK[state.group].icon;
}

/**
 * The tone of a badge: danger and hot ask for someone now, mild can wait.
 * @param {AgentState} state
 * @returns {"danger" | "hot" | "mild" | "working" | "calm" | "done"}
 */
export function toneOf({ group, state }) {
  if (group === "needs_you")
    return { error: /** @type {const} */ ("danger"), idle: /** @type {const} */ ("mild") }[state] ?? "hot";
  if (group === "autonomous") return state === "unknown" ? "calm" : "working";
  return state === "task_complete" ? "done" : "calm";
}

/** @param {AgentState} state @returns {string} the hub's words, else the bare name of the state */
export function labelOf(state) {
  return state.label || state.state.replaceAll("_", " ");
}

/**
 * @param {SessionView} first
 * @param {SessionView | undefined} second the next in order, if any
 */
export function whyFirst(first, second) {
  const name = first.state.state;
  if (isNew(first.state)) return "has not been given a prompt yet";
  const reason = Object.hasOwn(REASON, name) ? REASON[name] : "waits for you";
  const tied = second && (second.urgency ?? null) === (first.urgency ?? null);
  return tied ? `${reason}, the longest wait of this kind` : reason;
}

/** @param {Pick<SessionView, "title" | "project" | "session_id">} session */
export function titleOf(session) {
  return plain(session.title || session.project || `Session ${session.session_id.slice(0, 8)}`);
}

/** claude-opus-4-1-20250805 as "opus 4.1". @param {string} model */
export function modelName(model) {
  return model
    .replace(/^claude-/, "")
    .replace(/-\d{8}$/, "")
    .replace(/(\d)-(\d)/g, "$1.$2")
    .replaceAll("-", " ");
}
