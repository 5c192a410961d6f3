// @ts-check
/** The usage report that is looked at: which one the address asks for, and what the hub says. */
import { batch, computed, effect, signal } from "./vendor/signals-core.js";
import { keepInAddress, moves } from "./address.js";
import { plain } from "./asks.js";
import { askHub, listIn } from "./fetching.js";
import { whileReading } from "./reading.js";

/** @import { BudgetView, UsageReport } from "./wire.js" */

/** As far back as a hub goes. */
export const FURTHEST = 400;
export const DAYS = /** @type {const} */ ([1, 7, 30, 90, FURTHEST]);
export const BY = /** @type {const} */ (["day", "host", "project", "model", "session"]);
export const SPLITS = /** @type {const} */ (["model", "project", "host"]);
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
  keepInAddress({ days: all.days ? named("days") : "", since: all.since, until: all.until, by: named("by"), split: named("split"), measure: named("measure") });
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
      if (location.pathname !== "/usage") return;
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
      if (phase === "shown" && report?.rows.length === 0 && wanted.peek().days !== FURTHEST) lookFurther(stopped.signal);
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
  else usage.value = { phase: "failed", report, why: why ?? "The hub answered something else than a report." };
}
