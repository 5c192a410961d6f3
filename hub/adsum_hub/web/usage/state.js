// @ts-check
/** The usage report that is looked at: what the address asks for, what the hub answers, what a chart shows of it. */
import { batch, computed, effect, signal } from "../vendor/signals-core.js";
import { askHub, listIn } from "../core/api.js";
import { costOf, dollars, plain, short, SOURCES, tokensOf } from "../core/format.js";
import { moves } from "../core/navigation.js";
import { viewOf } from "../core/routes.js";
import { whileReading } from "../hosts/state.js";
import { keepInAddress } from "../list/state.js";

/** @import { BudgetView, UsageReport, UsageView } from "../wire.js" */

/** As far back as a hub goes. */
export const FURTHEST = 400;

export const DAYS = /** @type {const} */ ([1, 7, 30, 90, FURTHEST]);

export const BY = /** @type {const} */ (["day", "host", "project", "model", "agent", "session"]);

export const SPLITS = /** @type {const} */ (["model", "project", "host", "agent"]);

export const MEASURES = /** @type {const} */ (["cost", "tokens"]);

/**
 * days: 0 where the days from since to until were chosen, both included.
 * @typedef {object} Wanted
 * @property {number} days
 * @property {string} since
 * @property {string} until
 * @property {(typeof BY)[number]} by
 * @property {(typeof SPLITS)[number]} split
 * @property {(typeof MEASURES)[number]} measure
 */

/** @type {Readonly<Wanted>} */
const FIRST = { days: 7, since: "", until: "", by: "day", split: "model", measure: "cost" };
const DAY = /^\d{4}-\d\d-\d\d$/;

export const wanted = signal(/** @type {Wanted} */ (FIRST));

/** What the address asked for and there is not. */
export const strange = signal(/** @type {string[]} */ ([]));

/** Why the chosen days cannot be asked for. */
export const wrongDays = computed(() => {
  const { days, since, until } = wanted.value;
  if (days) return "";
  if (!since && !until) return "Choose the first and the last day.";
  const odd = [since, until].find((day) => day && !isDay(day));
  if (odd) return `${plain(odd)} is no day: one is written as 2026-11-30.`;
  return until && since > until ? "The first day is after the last." : "";
});

/**
 * report: while another is on its way, or could not be had, the one before. why: for people.
 * @typedef {{phase: "loading" | "shown" | "failed", report?: UsageReport, why?: string}} Usage
 */
export const usage = signal(/** @type {Usage} */ ({ phase: "loading" }));

/** Whether something was used before the days of a report that has nothing. */
export const older = signal(false);

/** Nothing until the hub has said; null if it does not say. */
export const budgets = signal(/** @type {BudgetView[] | null | undefined} */ (undefined));
/** Counts the times somebody asked for it again. */
const again = signal(0);

export function askAgain() {
  again.value += 1;
}

/** @param {string} text a day that there is */
function isDay(text) {
  if (!DAY.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

/** @param {Partial<Wanted>} changed kept in the address but for what needs no words */
export function choose(changed) {
  const all = { ...wanted.peek(), ...changed };
  if (changed.days) Object.assign(all, { since: "", until: "" });
  wanted.value = all;
  strange.value = [];
  const named = (/** @type {keyof Wanted} */ name) => (all[name] === FIRST[name] ? "" : String(all[name]));
  keepInAddress({
    days: all.days ? named("days") : "",
    since: all.since,
    until: all.until,
    by: named("by"),
    split: named("split"),
    measure: named("measure"),
  });
}

/** @param {string} search @returns {{all: Wanted, odd: string[]}} */
function wantedIn(search) {
  const said = new URLSearchParams(search);
  /** @type {string[]} */
  const odd = [];
  /** @template {string} T @param {string} name @param {readonly T[]} known @param {T} other @returns {T} */
  const one = (name, known, other) => {
    const value = said.get(name);
    const found = known.find((each) => each === value);
    if (value && !found) odd.push(`${name}=${value.slice(0, 40)}`);
    return found ?? other;
  };
  const by = one("by", BY, FIRST.by);
  const split = one("split", SPLITS, FIRST.split);
  const measure = one("measure", MEASURES, FIRST.measure);
  const since = said.get("since")?.slice(0, 40) ?? "";
  const until = said.get("until")?.slice(0, 40) ?? "";
  const days = since || until ? 0 : Number(one("days", DAYS.map(String), String(FIRST.days)));
  return { all: { days, since, until, by, split, measure }, odd };
}

/** @param {{days?: number, since?: string, until?: string, by?: string}} of a report by its days */
function daysOf({ days, since = "", until = "" }) {
  if (days) return `days=${days}`;
  return [since && `since=${since}`, until && `until=${until}`].filter(Boolean).join("&");
}

const address = computed(() => {
  const { by, split, ...period } = wanted.value;
  // Further back than all there is nothing to compare it with.
  return `/api/v1/usage?by=${by}&${daysOf(period)}&split=${split}${period.days === FURTHEST ? "" : "&compare=true"}`;
});

export function csvAddress() {
  return `/api/v1/usage?by=${wanted.value.by}&${daysOf(wanted.value)}&format=csv`;
}

/** @returns {() => void} to be called when nobody looks any more */
export function watchUsage() {
  let asked = "";
  const ends = [
    effect(() => {
      void moves.value;
      // A session that is opened over this view has another address.
      if (viewOf(location.pathname) !== "usage") return;
      const { all, odd } = wantedIn(location.search);
      batch(() => {
        wanted.value = all;
        strange.value = odd;
      });
    }),
    effect(() => {
      const stopped = new AbortController();
      void again.value;
      if (wrongDays.value) return;
      // The same once more is no reason to dim what stands there.
      fetchUsage(address.value, stopped.signal, address.value === asked);
      asked = address.value;
      return () => stopped.abort();
    }),
    effect(() => {
      const stopped = new AbortController();
      void again.value;
      fetchBudgets(stopped.signal);
      return () => stopped.abort();
    }),
    effect(() => {
      const stopped = new AbortController();
      const { phase, report } = usage.value;
      if (phase === "shown" && report?.rows.length === 0 && wanted.peek().days !== FURTHEST)
        lookFurther(stopped.signal);
      else older.value = false;
      return () => stopped.abort();
    }),
    whileReading(askAgain),
  ];
  return () => ends.forEach((end) => end());
}

/** @param {AbortSignal} stopped */
async function lookFurther(stopped) {
  const { body } = await askHub(`/api/v1/usage?by=day&days=${FURTHEST}`, stopped);
  if (!stopped.aborted) older.value = Boolean(listIn(body, "rows")?.length);
}

/** @param {AbortSignal} stopped */
async function fetchBudgets(stopped) {
  const { body } = await askHub("/api/v1/budgets", stopped);
  if (!stopped.aborted) budgets.value = listIn(body, "budgets") ?? budgets.peek() ?? null;
}

/** @param {string} path @param {AbortSignal} stopped @param {boolean} quiet */
async function fetchUsage(path, stopped, quiet) {
  const { report, phase } = usage.peek();
  if (!quiet || phase !== "shown") usage.value = { phase: "loading", report };
  const { body, why } = await askHub(path, stopped);
  if (stopped.aborted) return;
  if (listIn(body, "rows") && body.total) usage.value = { phase: "shown", report: body };
  else usage.value = { phase: "failed", report, why: why ?? "The hub's answer was not a report." };
}

/** @typedef {"cost" | "tokens"} Measure */

/**
 * One layer of the stack, the largest lowest. values: by day.
 * @typedef {{name: string, rest: boolean, values: number[], total: number}} Layer
 */
/** @typedef {{days: string[], layers: Layer[], totals: number[], total: number, mark: string}} Stack */

/** More than these nobody tells apart. */
export const MOST = 8;
const DAY_MS = 86_400_000;
const shortDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

const longDay = new Intl.DateTimeFormat(undefined, {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  timeZone: "UTC",
});

/** @param {string} day as the hub writes it */
export function dayShort(day) {
  return shortDay.format(Date.parse(`${day}T00:00:00Z`));
}

/** @param {string} day */
export function dayLong(day) {
  return longDay.format(Date.parse(`${day}T00:00:00Z`));
}

/** @param {string} first @param {string} last @returns {string[]} both included */
function daysBetween(first, last) {
  const days = [];
  for (let at = Date.parse(`${first}T00:00:00Z`); at <= Date.parse(`${last}T00:00:00Z`); at += DAY_MS)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

/** @param {number} value @param {Measure} measure @param {string} [mark] of a sum of dollars, how sure it is */
export function amount(value, measure, mark = "") {
  const words = measure === "cost" ? dollars(value) : short(value);
  return measure === "cost" && value >= 0.01 ? mark + words : words;
}

/**
 * @param {UsageReport} report
 * @param {Measure} measure
 * @param {boolean} trimmed from the first day that has anything on
 */
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
  const mark = /^[≈≥] /.exec(costOf(report.total))?.[0] ?? "";
  return { days, layers: found, totals, total: sum(totals), mark };
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
  const period = `${dayLong(days[0])} to ${dayLong(days[days.length - 1])}`;
  const peak = `${dayLong(days[most])} with ${amount(totals[most], measure)}`;
  const sums = `${amount(total, measure)} together, most on ${peak}`;
  const title = `${measure === "cost" ? "Cost" : "Tokens"} per day by ${split}`;
  return `${title}, ${period}: ${sums}. ${shares.join(", ")}${more}. The table below has the sums.`;
}

/** One day in words. @param {Stack} stack @param {Measure} measure @param {number} at */
export function dayWords({ days, layers, totals }, measure, at) {
  const parts = layers
    .filter(({ values }) => values[at] > 0)
    .map(({ name, values }) => `${name} ${amount(values[at], measure)}`);
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
 * @param {number | null | undefined} now @param {number | null | undefined} before @param {string} when
 *   such as "the 7 days before"
 * @returns {{trend: "up" | "down" | "same", words: string} | undefined}
 */
export function compared(now, before, when) {
  if (now == null || before == null || (now <= 0 && before <= 0)) return undefined;
  if (before <= 0) return { trend: "up", words: `nothing in ${when}` };
  const change = (now - before) / before;
  if (Math.abs(change) < 0.005) return { trend: "same", words: `as much as in ${when}` };
  const size =
    change >= 9
      ? `${Math.round(change + 1)} times as much as`
      : `${Math.max(1, Math.round(100 * Math.abs(change)))} % ${change > 0 ? "more" : "less"} than`;
  return { trend: change > 0 ? "up" : "down", words: `${size} in ${when}` };
}

/** Whose word a report's dollars are, and what its marks mean. @param {UsageReport} report */
export function reportSource({ rows, total }) {
  const sources = new Set(
    rows.filter(({ usage }) => usage.cost_usd != null).map(({ usage }) => usage.cost_source ?? "computed"),
  );
  const bears = (/** @type {string} */ mark) =>
    [...rows.map(({ usage }) => usage), total].some((usage) => costOf(usage).startsWith(mark));
  const computed = `${bears("≈") ? "≈ " : ""}${SOURCES.computed}`;
  const words = [];
  if (sources.has("mixed")) words.push(`${computed}, wholly or in part`);
  else if (sources.has("computed"))
    words.push(`${computed}${sources.has("reported") ? `, the others ${SOURCES.reported}` : ""}`);
  else if (sources.has("reported")) words.push(SOURCES.reported);
  if (total.unpriced_tokens)
    words.push(bears("≥") ? "≥ at least: some lack a price" : "unpriced: no price is known");
  return words.join(" · ");
}
