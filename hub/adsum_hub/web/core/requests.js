// @ts-check
/** What a session asks of its human: in short for a card, in full for the details. Pure; all of it is plain text. */
import { plain, record } from "./format.js";

/** @import { RequestView, SessionView } from "../wire.js" */

/**
 * @typedef {object} Ask
 * @property {"command" | "text" | "question" | "plan"} form
 * @property {string} text
 * @property {string} [note] the agent's own words about it
 * @property {string[]} [options]
 * @property {string} [more] what else waits
 */

const FIRST = ["permission", "question", "plan", "dialog"];

/** @param {unknown} value @returns {string | undefined} */
function shortWords(value) {
  return typeof value === "string" && value.trim() !== "" ? plain(value.trim()) : undefined;
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
  const command = shortWords(input.command);
  const text = command ?? shortWords(input.file_path) ?? shortWords(input.url) ?? summary;
  if (!text) return undefined;
  const shell = command !== undefined || request.role === "shell";
  return { form: shell ? "command" : "text", text, note: shortWords(input.description) };
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

/**
 * main: what is asked about, such as the command. fields: whatever else its payload holds.
 * @typedef {object} FullRequest
 * @property {string} title
 * @property {string} [note]
 * @property {string} [main]
 * @property {boolean} shell main is a command
 * @property {Question[]} questions
 * @property {[name: string, text: string][]} fields
 */
/** @typedef {{text: string, header?: string, several: boolean, options: {label: string, words?: string}[]}} Question */

/** More than a machine lets anybody decide on, short enough to draw. */
const LONGEST_FULL = 70_000;
/** What a request of this kind is about: the first that it holds. @type {Record<string, string[]>} */
const MAIN = { permission: ["command", "file_path", "url"], plan: ["plan"], dialog: ["message"] };
/** @type {Record<string, string>} */
const TITLES = { permission: "Permission", question: "Question", plan: "Plan", dialog: "Dialog" };

/** @param {unknown} value @returns {string | undefined} */
function fullWords(value) {
  if (typeof value !== "string" || value.trim() === "") return undefined;
  const text = plain(value.trim(), LONGEST_FULL);
  return value.length > LONGEST_FULL
    ? `${text}\n… (${(value.length - LONGEST_FULL).toLocaleString()} more characters)`
    : text;
}

/** @param {unknown} value @returns {Question[]} */
function questionsOf(value) {
  if (!Array.isArray(value)) return [];
  return value
    .map(record)
    .map((question) => ({
      text: fullWords(question.question) ?? "",
      header: fullWords(question.header),
      several: question.multiSelect === true,
      options: (Array.isArray(question.options) ? question.options : [])
        .map((option) => ({
          label: fullWords(record(option).label ?? option) ?? "",
          words: fullWords(record(option).description),
        }))
        .filter(({ label }) => label),
    }))
    .filter(({ text }) => text);
}

/** @param {RequestView} request @returns {FullRequest} */
export function fullOf(request) {
  const payload = record(request.payload);
  const about = Object.hasOwn(MAIN, request.kind) ? MAIN[request.kind] : [];
  const key = about.find((name) => fullWords(payload[name]));
  const title = Object.hasOwn(TITLES, request.kind) ? TITLES[request.kind] : plain(request.kind);
  const asked = questionsOf(payload.questions);
  const described = request.kind === "permission" ? fullWords(payload.description) : undefined;
  const shown = new Set([key, described && "description", asked.length > 0 && "questions"]);
  return {
    title: request.kind === "permission" && request.tool ? `${title}: ${plain(request.tool)}` : title,
    note: described,
    main: key ? fullWords(payload[key]) : asked.length > 0 ? undefined : fullWords(request.summary),
    shell: key === "command",
    questions: asked,
    fields: Object.entries(payload)
      .filter(([name, value]) => !shown.has(name) && value != null)
      .map(([name, value]) => [
        plain(name).replaceAll("_", " "),
        fullWords(typeof value === "string" ? value : JSON.stringify(value)) ?? "",
      ]),
  };
}
