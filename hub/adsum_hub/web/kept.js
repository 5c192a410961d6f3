// @ts-check
/** Settings of this browser alone: signals that outlive the page, where it may keep anything. */
import { signal } from "./vendor/signals-core.js";

/** @import { Signal } from "./vendor/signals-core.js" */

const PREFIX = "adsum.";

/**
 * The same in all of this browser's windows. Of another type than the usual value, what is kept counts as nothing.
 * @template T @param {string} name @param {T} usual @returns {Signal<T>}
 */
export function keptSignal(name, usual) {
  const found = signal(read(name, usual));
  let last = found.value;
  found.subscribe((value) => {
    if (value === last) return;
    last = value;
    try {
      localStorage.setItem(PREFIX + name, JSON.stringify(value));
    } catch {
      // No room, or forbidden: it holds as long as this page.
    }
  });
  addEventListener("storage", ({ key }) => {
    if (key !== PREFIX + name) return;
    last = read(name, usual);
    found.value = last;
  });
  return found;
}

/** @template T @param {string} name @param {T} usual @returns {T} */
function read(name, usual) {
  try {
    const value = JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
    return value !== null && typeof value === typeof usual ? value : usual;
  } catch {
    return usual;
  }
}
