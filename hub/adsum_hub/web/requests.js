// @ts-check
/** An open request with all that it holds, for the details. Pure; all of it is plain text. */
import { plain, record } from "./asks.js";

/** @import { RequestView } from "./wire.js" */

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

/** Longer than anyone reads, short enough to draw. */
const LONGEST = 20_000;
/** What a request of this kind is about: the first that it holds. @type {Record<string, string[]>} */
const MAIN = { permission: ["command", "file_path", "url"], plan: ["plan"], dialog: ["message"] };
/** @type {Record<string, string>} */
const TITLES = { permission: "Permission", question: "Question", plan: "Plan", dialog: "Dialog" };

/** @param {unknown} value @returns {string | undefined} */
function words(value) {
  if (typeof value !== "string" || value.trim() === "") return undefined;
  const text = plain(value.trim(), LONGEST);
  return value.length > LONGEST ? `${text}\n… (${(value.length - LONGEST).toLocaleString()} more characters)` : text;
}

/** @param {unknown} value @returns {Question[]} */
function questionsOf(value) {
  if (!Array.isArray(value)) return [];
  return value.map(record).map((question) => ({
    text: words(question.question) ?? "",
    header: words(question.header),
    several: question.multiSelect === true,
    options: (Array.isArray(question.options) ? question.options : [])
      .map((option) => ({ label: words(record(option).label ?? option) ?? "", words: words(record(option).description) }))
      .filter(({ label }) => label),
  })).filter(({ text }) => text);
}

/** @param {RequestView} request @returns {FullRequest} */
export function fullOf(request) {
  const payload = record(request.payload);
  const about = Object.hasOwn(MAIN, request.kind) ? MAIN[request.kind] : [];
  const key = about.find((name) => words(payload[name]));
  const title = Object.hasOwn(TITLES, request.kind) ? TITLES[request.kind] : plain(request.kind);
  const asked = questionsOf(payload.questions);
  const described = request.kind === "permission" ? words(payload.description) : undefined;
  const shown = new Set([key, described && "description", asked.length > 0 && "questions"]);
  return {
    title: request.kind === "permission" && request.tool ? `${title}: ${plain(request.tool)}` : title,
    note: described,
    main: key ? words(payload[key]) : asked.length > 0 ? undefined : words(request.summary),
    shell: key === "command",
    questions: asked,
    fields: Object.entries(payload)
      .filter(([name, value]) => !shown.has(name) && value != null)
      .map(([name, value]) => [plain(name).replaceAll("_", " "), words(typeof value === "string" ? value : JSON.stringify(value)) ?? ""]),
  };
}
