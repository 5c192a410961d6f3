// @ts-check
/** What a chart of usage is drawn from: its days, its layers, and the same in words. Pure. */
import { plain } from "./asks.js";
import { dollars, short, tokensOf } from "./figures.js";

/** @import { UsageReport, UsageView } from "./wire.js" */
/** @typedef {"cost" | "tokens"} Measure */

/**
 * One layer of the stack, the largest lowest. values: by day.
 * @typedef {{name: string, rest: boolean, values: number[], total: number}} Layer
 */
/** @typedef {{days: string[], layers: Layer[], totals: number[], total: number}} Stack */

/** More than these nobody tells apart. */
export const MOST = 8;
const DAY_MS = 86_400_000;
const short_ = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const long_ = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

/** @param {string} day as the hub writes it */
export function dayShort(day) {
  return short_.format(Date.parse(`${day}T00:00:00Z`));
}

/** @param {string} day */
export function dayLong(day) {
  return long_.format(Date.parse(`${day}T00:00:00Z`));
}

/** @param {string} first @param {string} last @returns {string[]} both included */
function daysBetween(first, last) {
  const days = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.parse(`${last}T00:00:00Z`); at += DAY_MS) days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

/** @param {number} value @param {Measure} measure */
export function amount(value, measure) {
  return measure === "cost" ? dollars(value) : short(value);
}

/** @param {UsageReport} report @param {Measure} measure @param {boolean} trimmed from the first day that has anything on */
export function stackOf(report, measure, trimmed) {
  const used = (report.series ?? []).flatMap(({ points }) => points.map(({ day }) => day)).sort();
  const days = used.length > 0 ? daysBetween(trimmed ? used[0] : report.since, report.until) : [];
  const place = new Map(days.map((day, n) => [day, n]));
  const layers = (report.series ?? []).map(({ key, label, points }) => {
    const values = days.map(() => 0);
    for (const { day, tokens = 0, cost_usd } of points) {
      const n = place.get(day);
      if (n !== undefined) values[n] = measure === "cost" ? (cost_usd ?? 0) : tokens;
    }
    return { name: plain(label, 120), rest: key === null, values, total: sum(values) };
  });
  const named = layers.filter(({ rest, total }) => !rest && total > 0).sort((a, b) => b.total - a.total);
  const others = [...named.slice(MOST), ...layers.filter(({ rest, total }) => rest && total > 0)];
  const found = named.slice(0, MOST);
  if (others.length > 0) {
    const values = days.map((_, n) => sum(others.map((each) => each.values[n])));
    found.push({ name: "all others", rest: true, values, total: sum(values) });
  }
  const totals = days.map((_, n) => sum(found.map(({ values }) => values[n])));
  return { days, layers: found, totals, total: sum(totals) };
}

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((all, each) => all + each, 0);
}

/** The picture in a few sentences. @param {Stack} stack @param {Measure} measure @param {string} split */
export function summaryOf({ days, layers, totals, total }, measure, split) {
  const most = totals.indexOf(Math.max(...totals));
  const shares = layers.slice(0, 4).map((layer) => `${layer.name} ${percentOf(layer.total, total)}`);
  const more = layers.length > 4 ? ` and ${layers.length - 4} more` : "";
  return `${measure === "cost" ? "Cost" : "Tokens"} per day by ${split}, ${dayLong(days[0])} to ${dayLong(days[days.length - 1])}: ${amount(total, measure)} together, most on ${dayLong(days[most])} with ${amount(totals[most], measure)}. ${shares.join(", ")}${more}. The table below has the sums.`;
}

/** One day in words. @param {Stack} stack @param {Measure} measure @param {number} at */
export function dayWords({ days, layers, totals }, measure, at) {
  const parts = layers.filter(({ values }) => values[at] > 0).map(({ name, values }) => `${name} ${amount(values[at], measure)}`);
  return `${dayLong(days[at])}: ${amount(totals[at], measure)}${parts.length > 1 ? `, ${parts.join(", ")}` : ""}`;
}

/** @param {number} part @param {number} whole */
export function percentOf(part, whole) {
  const percent = whole > 0 ? (100 * part) / whole : 0;
  if (percent > 0 && percent < 0.5) return "< 1 %";
  return `${Math.round(percent)} %`;
}

/** @param {UsageView} usage @param {Measure} measure */
export function sizeOf(usage, measure) {
  return measure === "cost" ? (usage.cost_usd ?? 0) : tokensOf(usage);
}

/**
 * How a sum compares with the one before it; nothing where the two cannot be compared.
 * @param {number | null | undefined} now @param {number | null | undefined} before @param {string} when such as "the 7 days before"
 * @returns {{trend: "up" | "down" | "same", words: string} | undefined}
 */
export function compared(now, before, when) {
  if (now == null || before == null || (now <= 0 && before <= 0)) return undefined;
  if (before <= 0) return { trend: "up", words: `nothing in ${when}` };
  const change = (now - before) / before;
  if (Math.abs(change) < 0.005) return { trend: "same", words: `as much as in ${when}` };
  const size = change >= 9 ? `${Math.round(change + 1)} times as much as` : `${Math.max(1, Math.round(100 * Math.abs(change)))} % ${change > 0 ? "more" : "less"} than`;
  return { trend: change > 0 ? "up" : "down", words: `${size} in ${when}` };
}
