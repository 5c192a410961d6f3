// @ts-check
/** Text as people read it: agents' text made safe, counts, times, tokens, dollars; as `adsum` has them. Pure. */
/** @import { ContextView, PlanView, UsageView } from "../wire.js" */

/** @param {number} ms @returns {string} such as 42s, 7m, 1h 04m, 2d 3h */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}h ${String(minutes % 60).padStart(2, "0")}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

/** Kept: making one takes far longer than using it. */
const dateAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const timeOnly = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** @param {number} at @returns {string} date and time to the second, as the reader writes them */
export function exact(at) {
  return dateAndTime.format(at);
}

/** @param {number} at @returns {string} the time of day alone */
export function timeOfDay(at) {
  return timeOnly.format(at);
}

/** @param {number} at @returns {string} the time of day, with the date unless it is today's */
export function moment(at) {
  return new Date(at).toDateString() === new Date().toDateString() ? timeOfDay(at) : exact(at);
}

const oneDigit = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

const exactly = new Intl.NumberFormat(undefined, {
  style: "currency",
  currency: "USD",
  currencyDisplay: "narrowSymbol",
  maximumFractionDigits: 4,
});

const grouped = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
/** From here on a context or a limit is nearly used up. */
const NEARLY = 80;
const UNITS = ["k", "M", "G", "T", "P"];
/** Less than this would be rounded to no cent at all. */
const CENT_LEAST = 0.005;

/** Half is up. @param {number} number @param {number} digits */
function rounded(number, digits) {
  return Math.floor(number * 10 ** digits + 0.5) / 10 ** digits;
}

/** @param {number} count at most five characters, such as 950, 12.3k, 1.2M */
export function short(count) {
  let size = Math.min(Math.max(0, count), 1e18);
  if (size < 999.5) return rounded(size, 0).toFixed(0);
  for (const unit of UNITS) {
    size /= 1000;
    if (size < 99.95) return `${rounded(size, 1).toFixed(1)}${unit}`;
    if (size < 999.5) return `${rounded(size, 0).toFixed(0)}${unit}`;
  }
  return `>999${UNITS.at(-1)}`;
}

/** @param {number} usd */
export function dollars(usd) {
  if (usd <= 0) return "$0.00";
  if (usd < CENT_LEAST) return "< $0.01";
  return `$${usd < 99_999.995 ? grouped.format(rounded(usd, 2)) : short(usd)}`;
}

/** Estimated dollars; "less than" is an estimate as it is. @param {number} usd */
export function about(usd) {
  const words = dollars(usd);
  return words.startsWith("<") ? words : `≈ ${words}`;
}

/** @param {number} usd to a hundredth of a cent */
export function exactDollars(usd) {
  return exactly.format(usd);
}

/** @param {UsageView} usage all kinds of tokens together */
export function tokensOf({ input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 }) {
  return input_tokens + output_tokens + cache_read_tokens + cache_write_tokens;
}

/**
 * "≈" where prices were applied instead of the agent's own word; "≥" where more was used that has no
 * price. Nothing where there is nothing to pay.
 * @param {UsageView} usage
 */
export function costOf(usage) {
  if (usage.cost_source === "plan") return "plan";
  if (usage.cost_usd == null) return tokensOf(usage) > 0 || usage.unpriced_tokens ? "unpriced" : "";
  // Not even begun, or all of it was another session's: no price was applied to anything.
  if (usage.cost_usd <= 0 && tokensOf(usage) === 0 && !usage.web_searches) return "";
  // Next to nothing of it has a price.
  if (usage.unpriced_tokens) return usage.cost_usd < CENT_LEAST ? "unpriced" : `≥ ${dollars(usage.cost_usd)}`;
  return usage.cost_source === "reported" ? dollars(usage.cost_usd) : about(usage.cost_usd);
}

export const SOURCES = {
  reported: "as the agent reports",
  computed: "from list prices",
  mixed: "in part as the agent reports, in part from list prices",
  plan: "a plan pays, tokens are not billed",
};

/** Where the dollars come from, and what is not part of them. @param {UsageView} usage */
export function costSource(usage) {
  if (usage.cost_source === "plan") return SOURCES.plan;
  if (usage.cost_usd == null) return tokensOf(usage) > 0 ? "no price is known for the model" : "";
  const left = usage.unpriced_tokens ?? 0;
  const unpriced = left > 0 ? `; ${left.toLocaleString()} tokens have no price and are not part of it` : "";
  return SOURCES[usage.cost_source ?? "computed"] + unpriced;
}

/** One exact sentence, for a title. @param {UsageView} usage */
export function exactUsage(usage) {
  const unpriced = usage.cost_source === "plan" ? "No dollars" : "Unpriced";
  const cost = usage.cost_usd == null ? unpriced : exactDollars(usage.cost_usd);
  const source = costSource(usage);
  return `${tokensOf(usage).toLocaleString()} tokens. ${cost}${source && `, ${source}`}`;
}

/** @param {ContextView} context @returns {number | undefined} whole percent; undefined where no size is known */
export function fullness({ tokens, size }) {
  return size ? Math.round((100 * tokens) / size) : undefined;
}

/** @param {number} percent of a context or a limit */
export function nearlyFull(percent) {
  return percent >= NEARLY;
}

/** @param {number} count of bytes, in the units that disks are sold in */
export function bytes(count) {
  const step = count < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(count) / 3));
  return `${oneDigit.format(count / 1000 ** step)} ${["B", "kB", "MB", "GB", "TB"][step]}`;
}

/** @type {Record<string, string>} */
const LIMITS = {
  five_hour: "5-hour limit",
  seven_day: "7-day limit",
  seven_day_opus: "7-day Opus limit",
  seven_day_sonnet: "7-day Sonnet limit",
};

/** @param {string} name of a rate limit */
export function limitName(name) {
  return Object.hasOwn(LIMITS, name) ? LIMITS[name] : `${name.replaceAll("_", " ")} limit`;
}

/** @param {string} name such as 5h, 7d */
export function limitShort(name) {
  return plain(limitName(name))
    .replace(/-hour limit$/, "h")
    .replace(/-day limit$/, "d")
    .replace(/-day (\w+) limit$/, "d $1")
    .replace(/ limit$/, "");
}

/** What is used of a plan's limits, in place of dollars. @param {PlanView} plan */
export function planOf({ name, limits = [] }) {
  const used = limits.map((limit) => `${limitShort(limit.name)} ${Math.round(limit.used_percent)} %`);
  return used.join(" · ") || `plan ${plain(name)}`;
}

export const LONGEST = 1200;

// generated by `python -m scripts.characters`
const INVISIBLE = String.raw`\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f` +
  String.raw`\u0890-\u0891\u08e2\u115f-\u1160\u1680\u17b4-\u17b5\u180b-\u180f\u2000-\u200f` +
  String.raw`\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff` +
  String.raw`\uffa0\ufff0-\ufffc\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}` +
  String.raw`\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}`;
const JOINED = String.raw`\u0600-\u06ff\u0900-\u0dff\u2600-\u27bf\ufe0f\u{1f000}-\u{1faff}`;
const SELECTORS = String.raw`\ufe00-\ufe0f\u{e0100}-\u{e01ef}`;
// end

/** A character class: the table, and what the browser's Unicode has not assigned. */
export const HIDDEN = `\\p{Cn}${INVISIBLE}`;
const hidden = new RegExp(`[${HIDDEN}]`, "gu");
/** But for joiners and selectors that belong to the character before them. */
const hiddenInProse = new RegExp(
  `(?<![${JOINED}])[\\u200c\\u200d]|(?<![^ \\t\\n${HIDDEN}])[${SELECTORS}]|[[${HIDDEN}]--[\\u200c\\u200d${SELECTORS}]]`,
  "gv",
);

/** Prose of an agent; what nobody sees is a space or a box. @param {unknown} text */
export function plain(text, longest = LONGEST) {
  const cut = String(text).slice(0, longest);
  return cut.replace(/\r\n?/g, "\n").replace(/\p{Zs}/gu, " ").replace(hiddenInProse, "\u25af");
}

/** Code of an agent; what nobody sees is an escape. @param {unknown} text */
export function visible(text, longest = LONGEST) {
  const cut = String(text).slice(0, longest).replaceAll("\r\n", "\n");
  return cut.replace(hidden, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);
}

/** @param {unknown} value @returns {Record<string, unknown>} */
export function record(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? /** @type {Record<string, unknown>} */ (value)
    : {};
}

/** @param {string} words */
export function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}
