// @ts-check
/** Light or dark, airy or dense: kept in this browser, said by attributes of the page's root. */
import { effect } from "./vendor/signals-core.js";
import { keptSignal } from "./kept.js";

export const THEMES = /** @type {const} */ (["system", "light", "dark"]);
export const DENSITIES = /** @type {const} */ (["comfortable", "compact"]);

/** @typedef {(typeof THEMES)[number]} Theme */
/** @typedef {(typeof DENSITIES)[number]} Density */

const keptTheme = keptSignal("theme", "system");
const keptDensity = keptSignal("density", "comfortable");

/** What is kept may be anybody's word. @returns {Theme} */
export function theme() {
  return THEMES.find((each) => each === keptTheme.value) ?? "system";
}

/** @returns {Density} */
export function density() {
  return DENSITIES.find((each) => each === keptDensity.value) ?? "comfortable";
}

/** @param {Theme} wanted */
export function setTheme(wanted) {
  keptTheme.value = wanted;
}

/** @param {Density} wanted */
export function setDensity(wanted) {
  keptDensity.value = wanted;
}

/** From now on the page looks as it is told to. */
export function followLook() {
  const root = document.documentElement;
  const bars = [...document.querySelectorAll("meta[name=theme-color]")].map((bar) => ({ bar, usual: bar.getAttribute("media") ?? "" }));
  effect(() => {
    const wanted = theme();
    if (wanted === "system") delete root.dataset.theme;
    else root.dataset.theme = wanted;
    // The browser's own bars go along.
    for (const { bar, usual } of bars) bar.setAttribute("media", wanted === "system" ? usual : usual.includes(wanted) ? "all" : "not all");
  });
  effect(() => {
    if (density() === "compact") root.dataset.density = "compact";
    else delete root.dataset.density;
  });
}
