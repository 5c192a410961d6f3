// @ts-check
/** Tokens, dollars, bytes and shares in words: short ones to read at a glance, exact ones for titles. Pure. */

/** @import { ContextView, UsageView } from "./wire.js" */

const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const oneDigit = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
/** @param {Intl.NumberFormatOptions} more */
const money = (more) => new Intl.NumberFormat(undefined, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", ...more });
const cents = money({});
const wholeDollars = money({ maximumFractionDigits: 0 });
const millions = money({ notation: "compact", maximumFractionDigits: 1 });
const exactly = money({ maximumFractionDigits: 4 });

/** From here on a context or a limit is nearly used up. */
const NEARLY = 80;

/** @param {number} count such as 950, 12.3K, 1.2M */
export function short(count) {
  return compact.format(count);
}

/** @param {number} usd */
export function dollars(usd) {
  if (usd > 0 && usd < 0.01) return `< ${cents.format(0.01)}`;
  return (usd < 1000 ? cents : usd < 1e6 ? wholeDollars : millions).format(usd);
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
 * "≈" where prices were applied instead of the agent's own word; "+" where more was used that has no
 * price. Nothing where there is nothing to pay.
 * @param {UsageView} usage
 */
export function costOf(usage) {
  if (usage.cost_usd == null) return tokensOf(usage) > 0 ? "unpriced" : "";
  return `${usage.cost_source !== "reported" ? about(usage.cost_usd) : dollars(usage.cost_usd)}${usage.unpriced_tokens ? "+" : ""}`;
}

const SOURCES = {
  reported: "as the agent itself reports",
  computed: "estimated from list prices",
  mixed: "in part as the agents report, in part estimated from list prices",
};

/** Where the dollars come from, and what is not part of them. @param {UsageView} usage */
export function costSource(usage) {
  if (usage.cost_usd == null) return tokensOf(usage) > 0 ? "no price is known for the model" : "";
  const left = usage.unpriced_tokens ?? 0;
  return `${SOURCES[usage.cost_source ?? "computed"]}${left > 0 ? `; ${left.toLocaleString()} tokens have no price and are not part of it` : ""}`;
}

/** One exact sentence, for a title. @param {UsageView} usage */
export function exactUsage(usage) {
  const cost = usage.cost_usd == null ? "Unpriced" : exactDollars(usage.cost_usd);
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
const LIMITS = { five_hour: "5-hour limit", seven_day: "7-day limit", seven_day_opus: "7-day Opus limit", seven_day_sonnet: "7-day Sonnet limit" };

/** @param {string} name of a rate limit */
export function limitName(name) {
  return Object.hasOwn(LIMITS, name) ? LIMITS[name] : `${name.replaceAll("_", " ")} limit`;
}
