// @ts-check
/** Preferences of this browser: signals that outlive the page, among them theme and density. */
import { effect, signal } from "../vendor/signals-core.js";

/** @import { Signal } from "../vendor/signals-core.js" */

const PREFIX = "adsum.";

/**
 * The same in all of this browser's windows. Of another type than the usual value, what is kept counts as nothing.
 * @template T @param {string} name @param {T} usual @returns {Signal<T>}
 */
export function storedSignal(name, usual) {
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

export const THEMES = /** @type {const} */ (["system", "light", "dark"]);

export const DENSITIES = /** @type {const} */ (["comfortable", "compact"]);

/** @typedef {(typeof THEMES)[number]} Theme */
/** @typedef {(typeof DENSITIES)[number]} Density */

const storedTheme = storedSignal("theme", "system");
const storedDensity = storedSignal("density", "comfortable");

/** What is kept may be anybody's word. @returns {Theme} */
export function theme() {
  return THEMES.find((each) => each === storedTheme.value) ?? "system";
}

/** @returns {Density} */
export function density() {
  return DENSITIES.find((each) => each === storedDensity.value) ?? "comfortable";
}

/** @param {Theme} wanted */
export function setTheme(wanted) {
  storedTheme.value = wanted;
}

/** @param {Density} wanted */
export function setDensity(wanted) {
  storedDensity.value = wanted;
}

/** From now on the page looks as it is told to. */
export function applyAppearance() {
  const root = document.documentElement;
  const bars = [...document.querySelectorAll("meta[name=theme-color]")].map((bar) => ({
    bar,
    usual: bar.getAttribute("media") ?? "",
  }));
  effect(() => {
    const wanted = theme();
    if (wanted === "system") delete root.dataset.theme;
    else root.dataset.theme = wanted;
    // The browser's own bars go along.
    for (const { bar, usual } of bars)
      bar.setAttribute("media", wanted === "system" ? usual : usual.includes(wanted) ? "all" : "not all");
  });
  effect(() => {
    if (density() === "compact") root.dataset.density = "compact";
    else delete root.dataset.density;
  });
}
