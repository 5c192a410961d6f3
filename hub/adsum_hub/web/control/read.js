// @ts-check
/** What a request holds, in full, made readable: the lines of an edit, the blocks of a plan, a form's fields. Pure. */
import { plain, record } from "../core/format.js";

/** @import { RequestView } from "../wire.js" */

/**
 * main: what is asked about, such as the command. code: main is drawn by `Code`, as the texts of fields are.
 * fields: whatever else its payload holds.
 * @typedef {object} FullRequest
 * @property {string} title
 * @property {string} [note]
 * @property {string} [main]
 * @property {boolean} code
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

/** code: as it is, to be drawn by `Code`. @param {unknown} value @returns {string | undefined} */
function fullWords(value, code = false) {
  if (typeof value !== "string" || value.trim() === "") return undefined;
  const text = code ? value.slice(0, LONGEST_FULL) : plain(value.trim(), LONGEST_FULL);
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
  // What is no question shows all that its fields hold, also of some that are named so.
  const asked = request.kind === "question" ? questionsOf(payload.questions) : [];
  const code = request.kind === "permission";
  const described = request.kind === "permission" ? fullWords(payload.description) : undefined;
  const shown = new Set([key, described && "description", asked.length > 0 && "questions"]);
  return {
    title: request.kind === "permission" && request.tool ? `${title}: ${plain(request.tool)}` : title,
    note: described,
    main: key ? fullWords(payload[key], code) : asked.length > 0 ? undefined : fullWords(request.summary, code),
    code,
    shell: key === "command",
    questions: asked,
    fields: Object.entries(payload)
      .filter(([name, value]) => !shown.has(name) && value != null)
      .map(([name, value]) => [
        plain(name).replaceAll("_", " "),
        fullWords(typeof value === "string" ? value : JSON.stringify(value), true) ?? "",
      ]),
  };
}

/** @typedef {{sign: " " | "+" | "-", text: string, blank?: number}} DiffLine blank: so many lines, all blank */
/**
 * path: of the file. edits: one after the other. whole: it replaces the file. all: wherever it stands.
 * @typedef {{path: string, edits: DiffLine[][], whole: boolean, all: boolean}} Edit
 */

/** Of two texts with more lines than that together, all of the one is shown, then all of the other. */
const MOST_CELLS = 400_000;
/** As much as a machine lets anybody decide on. */
const MOST_CHARS = 70_000;

/** @param {unknown} value */
function lines(value) {
  return String(value).slice(0, MOST_CHARS).split(/\r?\n/);
}

/**
 * Only of a tool that edits or writes, and only if a diff shows all that it takes: nobody is to allow what they
 * cannot see.
 * @param {RequestView} request
 * @returns {Edit | undefined}
 */
export function editOf({ kind, payload, role }) {
  if (kind !== "permission" || (role !== "edit" && role !== "write")) return undefined;
  const { file_path: path, replace_all: all = false, ...changes } = record(payload);
  if (typeof path !== "string" || typeof all !== "boolean") return undefined;
  const about = { path: path.slice(0, 4000), whole: false, all };
  if (holdsOnly(changes, "old_string", "new_string")) return { ...about, edits: [diffIn(changes)] };
  const { edits, ...others } = changes;
  if (Array.isArray(edits) && edits.length > 0 && Object.keys(others).length === 0 && !all) {
    // One that replaces all is shown as it is sent: a diff has no place to say so of one.
    const parts = edits.map((each) => (({ replace_all, ...rest }) => (replace_all ? {} : rest))(record(each)));
    return parts.every((each) => holdsOnly(each, "old_string", "new_string"))
      ? { ...about, edits: parts.map(diffIn) }
      : undefined;
  }
  if (role === "write" && !all && holdsOnly(changes, "content"))
    return { ...about, whole: true, edits: [lines(changes.content).map((text) => ({ sign: "+", text }))] };
  return undefined;
}

/** @param {DiffLine[]} lines @returns {DiffLine[]} a line that counts them for more than three blank ones in a row */
export function foldBlank(lines) {
  /** @type {DiffLine[][]} */
  const runs = [];
  for (const line of lines) {
    const run = runs.at(-1);
    if (run && run[0].sign === line.sign && isBlank(run[0]) && isBlank(line)) run.push(line);
    else runs.push([line]);
  }
  return runs.flatMap((run) => (run.length > 3 ? { sign: run[0].sign, text: "", blank: run.length } : run));
}

/** @param {DiffLine} line */
function isBlank({ text }) {
  return /^[ \t]*$/.test(text);
}

/** @param {Record<string, unknown>} held @param {string[]} names */
function holdsOnly(held, ...names) {
  return Object.keys(held).length === names.length && names.every((name) => typeof held[name] === "string");
}

/** @param {Record<string, unknown>} change */
function diffIn({ old_string: before, new_string: after }) {
  return diffOf(lines(before), lines(after));
}

/** @param {string[]} before @param {string[]} after @returns {DiffLine[]} */
export function diffOf(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  const most = Math.min(before.length, after.length) - head;
  while (tail < most && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const same = (/** @type {string[]} */ all) => all.map((text) => ({ sign: /** @type {const} */ (" "), text }));
  const middle = changed(before.slice(head, before.length - tail), after.slice(head, after.length - tail));
  return [...same(before.slice(0, head)), ...middle, ...same(before.slice(before.length - tail))];
}

/** By their longest common lines. @param {string[]} before @param {string[]} after @returns {DiffLine[]} */
function changed(before, after) {
  const [rows, columns] = [before.length, after.length];
  /** @type {DiffLine[]} */
  const told = [];
  const gone = (/** @type {number} */ i) => told.push({ sign: "-", text: before[i] });
  const come = (/** @type {number} */ j) => told.push({ sign: "+", text: after[j] });
  if (rows * columns > MOST_CELLS) {
    before.forEach((_, i) => gone(i));
    after.forEach((_, j) => come(j));
    return told;
  }
  const width = columns + 1;
  const common = new Uint32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i -= 1)
    for (let j = columns - 1; j >= 0; j -= 1)
      common[i * width + j] =
        before[i] === after[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  let [i, j] = [0, 0];
  while (i < rows || j < columns) {
    if (i < rows && j < columns && before[i] === after[j]) told.push({ sign: " ", text: before[(j += 1, i++)] });
    else if (i < rows && (j >= columns || common[(i + 1) * width + j] >= common[i * width + j + 1])) gone(i++);
    else come(j++);
  }
  return told;
}

/**
 * One block of a plan. level: of a heading; of a list's item how deep it stands.
 * @typedef {{kind: "heading" | "item" | "code" | "quote" | "text", text: string, level: number, mark?: string}} Block
 */

/** @param {string} text in Markdown; what is not known of it stays as it is written @returns {Block[]} */
export function blocksOf(text) {
  /** @type {Block[]} */
  const blocks = [];
  /** @type {string | undefined} */
  let fence;
  let open = false;
  for (const line of lines(text)) {
    const last = blocks.at(-1);
    if (fence !== undefined) {
      if (line.trim().startsWith(fence) && line.trim().replaceAll(fence[0], "") === "") fence = undefined;
      else if (last) last.text += last.text || open ? `\n${line}` : line;
      open = true;
      continue;
    }
    const block = blockOf(line);
    if (block?.kind === "code") {
      fence = block.mark;
      open = false;
      const said = block.text;
      blocks.push({ ...block, text: "", mark: said });
    } else if (block) blocks.push(block);
    else if (line.trim() === "") blocks.push({ kind: "text", text: "", level: 0 });
    else if (last && last.text !== "" && (last.kind === "text" || last.kind === "item")) last.text += `\n${line}`;
    else blocks.push({ kind: "text", text: line, level: 0 });
  }
  return blocks.filter(({ kind, text }) => text !== "" || kind === "code");
}

/** @param {string} line @returns {Block | undefined} what begins with it */
function blockOf(line) {
  const heading = /^ {0,3}(#{1,6})\s+(.*)$/.exec(line);
  if (heading) return { kind: "heading", text: heading[2], level: heading[1].length };
  const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
  if (item)
    return {
      ...{ kind: "item", text: item[3], level: Math.min(5, Math.floor(item[1].replaceAll("\t", "    ").length / 2)) },
      mark: /\d/.test(item[2]) ? item[2] : "•",
    };
  const fence = /^\s*(`{3,}|~{3,})(.*)$/.exec(line);
  if (fence) return { kind: "code", text: fence[2].trim(), level: 0, mark: fence[1] };
  const quote = /^ {0,3}>\s?(.*)$/.exec(line);
  return quote ? { kind: "quote", text: quote[1] || " ", level: 0 } : undefined;
}

/** @param {string} text @returns {{kind: "" | "code" | "strong", text: string}[]} code and strong words apart */
export function spansOf(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part) => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return { kind: "code", text: part.slice(1, -1) };
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**"))
      return { kind: "strong", text: part.slice(2, -2) };
    return { kind: "", text: part };
  });
}

/**
 * A field of a server's form. choices: value and words, if it takes one of them.
 * @typedef {{name: string, title: string, words?: string, kind: "string" | "number" | "integer" | "boolean",
 *   choices?: [string, string][], required: boolean, first: string | boolean}} Field
 */

const KINDS = /** @type {const} */ (["boolean", "number", "integer"]);

/** @param {unknown} schema @returns {Field[]} */
export function fieldsOf(schema) {
  const required = record(schema).required;
  return Object.entries(record(record(schema).properties)).map(([name, told]) => {
    const about = record(told);
    const kind = KINDS.find((each) => each === about.type) ?? "string";
    const words = Array.isArray(about.enumNames) ? about.enumNames : [];
    const choices = Array.isArray(about.enum)
      ? about.enum.map((each, i) => /** @type {[string, string]} */ ([String(each), plain(words[i] ?? each, 200)]))
      : undefined;
    const given = about.default;
    return {
      ...{ name, kind, choices, title: plain(about.title ?? name, 200) },
      words: typeof about.description === "string" ? plain(about.description, 2000) : undefined,
      required: Array.isArray(required) && required.includes(name),
      first: kind === "boolean" ? given === true : given === undefined || given === null ? "" : String(given),
    };
  });
}

/**
 * What a form's fields hold, as values; or what is wrong with them.
 * @param {Field[]} fields
 * @param {Record<string, string | boolean>} held
 * @returns {{content?: Record<string, string | number | boolean>, wrong?: string}}
 */
export function contentOf(fields, held) {
  /** @type {Record<string, string | number | boolean>} */
  const content = {};
  for (const { name, title, kind, required, first } of fields) {
    const value = held[name] ?? first;
    if (typeof value === "boolean") content[name] = value;
    else if (value.trim() === "") {
      if (required) return { wrong: `${title} is not filled in.` };
    } else if (kind === "string") content[name] = value;
    else {
      const number = Number(value);
      if (!Number.isFinite(number) || (kind === "integer" && !Number.isInteger(number)))
        return { wrong: `${title} takes a ${kind === "integer" ? "whole number" : "number"}.` };
      content[name] = number;
    }
  }
  return { content };
}

/** What often cannot be taken back; no list of it is whole. */
const GRAVE = [
  /\brm\s+(-\w*[rRf]|--recursive|--force)/,
  /\bsudo\b|\bdoas\b/,
  /\bgit\s+push\b.*(\s-f\b|--force|--delete|--mirror)/,
  /\bgit\s+(reset\s+--hard|clean\s+-\w*f|checkout\s+--\s|branch\s+-D)/,
  /\b(dd|mkfs\S*|shred|fdisk)\s/,
  /\b(curl|wget)\b[^|;]*\|\s*(sudo\s+)?\w*sh\b/,
  /\b(chmod|chown)\s+-\w*R/,
  /\b(drop|truncate)\s+(table|database|schema)\b|\bdelete\s+from\b/i,
  /\bkubectl\s+delete\b|\b(terraform|tofu|pulumi)\s+(apply|destroy|up)\b/,
  /\b(shutdown|reboot|halt)\b/,
  /\b(npm|pnpm|yarn|cargo|twine|gem)\s+(publish|upload|push)\b/,
  /\bdocker\b.*\bprune\b|\bfind\b.*-delete\b/,
];

/** Return whether a request needs a second press: a mistake would do damage, or its text may be misread.
 * @param {Pick<RequestView, "payload" | "hold">} request */
export function isGrave({ payload, hold }) {
  if (hold?.cautions) return true;
  const words = Object.values(record(payload)).filter((each) => typeof each === "string");
  return words.some((text) => GRAVE.some((pattern) => pattern.test(text)));
}

/** What fits a card whole: more of it has to be opened to be allowed. */
const BRIEF = { lines: 12, chars: 600 };

/**
 * What a card shows of a permission beside its command; nothing if all of it does not fit there.
 * @param {RequestView} request
 * @returns {[name: string, text: string][] | undefined}
 */
export function briefOf(request) {
  const payload = record(request.payload);
  if (request.kind !== "permission" || payload.file_path !== undefined || payload.notebook_path !== undefined)
    return undefined;
  const { main, note, fields } = fullOf(request);
  const all = [main, note, ...fields.flat()].join("\n");
  if (!main || all.length > BRIEF.chars || all.split("\n").length > BRIEF.lines) return undefined;
  return fields;
}
