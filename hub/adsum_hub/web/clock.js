// @ts-check
/** The hub's time as this page knows it, and durations in words. */
import { signal } from "./vendor/signals-core.js";

/** Milliseconds of the hub's clock, moved on once a second; stands still while the link is down. */
export const hubNow = signal(Date.now());

let offset = 0;
let frozen = true;

/** @param {number} now the hub's clock in a message that has just come */
export function setHubTime(now) {
  offset = now - Date.now();
}

/** @param {boolean} live while not, no age goes on growing @param {number} [still] what the page is as of, if not the last message */
export function runClock(live, still) {
  frozen = !live;
  if (live) hubNow.value = Date.now() + offset;
  else if (still !== undefined) hubNow.value = still;
}

setInterval(() => {
  if (!frozen) hubNow.value = Date.now() + offset;
}, 1000);

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
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const timeOnly = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** @param {number} at @returns {string} date and time to the second, as the reader writes them */
export function exact(at) {
  return whole.format(at);
}

/** @param {number} at @returns {string} the time of day alone */
export function timeOfDay(at) {
  return timeOnly.format(at);
}

/** @param {number} at @returns {string} the time of day, with the date unless it is today's */
export function moment(at) {
  return new Date(at).toDateString() === new Date().toDateString() ? timeOfDay(at) : exact(at);
}
