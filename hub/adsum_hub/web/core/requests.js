// @ts-check
/** What a session asks of its human: in short, for a card. Pure. */
import { LONGEST, plain, record } from "./format.js";

/** @import { RequestView, SessionView } from "../wire.js" */

/**
 * @typedef {object} Ask
 * @property {"command" | "text" | "question" | "plan"} form
 * @property {string} text
 * @property {boolean} [code] text is to be drawn by `Code`; else it is plain
 * @property {string} [note] the agent's own words about it
 * @property {string[]} [options]
 * @property {string} [more] what else waits
 */

const FIRST = ["permission", "question", "plan", "dialog"];

/** @param {unknown} value @returns {string | undefined} */
function shortWords(value) {
  return typeof value === "string" && value.trim() !== "" ? plain(value.trim()) : undefined;
}

/** @param {unknown} value @returns {string | undefined} */
function shortCode(value) {
  return typeof value === "string" && value.trim() !== "" ? value.slice(0, LONGEST) : undefined;
}

/** @param {SessionView} session @returns {RequestView[]} most urgent first */
export function openRequests(session) {
  const rank = (/** @type {RequestView} */ r) => (FIRST.includes(r.kind) ? FIRST.indexOf(r.kind) : FIRST.length);
  return [...(session.requests ?? [])].sort((a, b) => rank(a) - rank(b) || a.opened_at - b.opened_at);
}

/** @param {Record<string, unknown>} input @returns {Ask | undefined} */
function questionOf(input) {
  const questions = Array.isArray(input.questions) ? input.questions.map(record) : [];
  const text = shortWords(questions[0]?.question);
  if (!text) return undefined;
  const options = Array.isArray(questions[0].options) ? questions[0].options : [];
  const others = questions.length - 1;
  return {
    form: "question",
    text,
    options: options
      .map((o) => shortWords(record(o).label ?? o) ?? "")
      .filter(Boolean)
      .slice(0, 6),
    more: others > 0 ? `and ${others} more question${others > 1 ? "s" : ""}` : undefined,
  };
}

/** @param {RequestView} request @returns {Ask | undefined} */
export function askOf(request) {
  const input = record(request.payload);
  const summary = shortWords(request.summary);
  if (request.kind === "question") return questionOf(input) ?? asText(summary);
  if (request.kind === "plan") {
    const plan = shortWords(input.plan) ?? summary;
    return plan ? { form: "plan", text: plan.replace(/\n\s*\n/g, "\n") } : undefined;
  }
  if (request.kind !== "permission") return asText(shortWords(input.message) ?? summary);
  const command = shortCode(input.command);
  const text = command ?? shortCode(input.file_path) ?? shortCode(input.url) ?? shortCode(request.summary);
  if (!text) return undefined;
  const shell = command !== undefined || request.role === "shell";
  return { form: shell ? "command" : "text", text, code: true, note: shortWords(input.description) };
}

/** @param {string | undefined} text @returns {Ask | undefined} */
function asText(text) {
  return text ? { form: "text", text } : undefined;
}

/**
 * What stands on a session's card: its most urgent request, or what it said as it failed.
 * @param {SessionView} session
 * @returns {Ask | undefined}
 */
export function askOfSession(session) {
  const [first, ...others] = openRequests(session);
  if (!first) return session.state.state === "error" ? asText(shortWords(session.state.context?.message)) : undefined;
  const ask = askOf(first);
  if (!ask || others.length === 0) return ask;
  const rest = `${others.length} more request${others.length > 1 ? "s" : ""} of this session`;
  return { ...ask, more: ask.more ? `${ask.more}, ${rest}` : `and ${rest}` };
}
