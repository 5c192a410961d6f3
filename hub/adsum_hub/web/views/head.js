// @ts-check
/** Top of the page: name, filter, what today has cost, the way to usage and history, connection pill. */
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { openPanel, panel } from "../address.js";
import { timeOfDay } from "../clock.js";
import { about, exactDollars, short } from "../figures.js";
import { linkState, trouble } from "../link.js";
import { known, query } from "../roster.js";
import { today } from "../today.js";
import { Icon, html } from "./html.js";

/** @param {{filter: boolean}} props there is something to filter */
export function Head({ filter }) {
  return html`<header class="head">
    <h1 class="brand"><img src="/static/icon.svg" alt="" width="26" height="26" />Adsum</h1>
    ${filter && html`<${Filter} />`}
    <div class="head-end">${known.value && html`<${Tools} />`}<${Pill} /></div>
  </header>`;
}

function Tools() {
  return html`<button class="tool" aria-haspopup="dialog" aria-expanded=${panel.value === "usage"} title=${todayExactly()} onClick=${() => openPanel("usage")}>
      <${Icon} name="wallet" /><${Today} /><span class="sr">Usage</span>
    </button>
    <button class="tool" aria-haspopup="dialog" aria-expanded=${panel.value === "history"} title="Search sessions that are over" onClick=${() => openPanel("history")}>
      <${Icon} name="archive" /><span class="tool-name">History</span>
    </button>`;
}

function Today() {
  const { totalCostTodayUsd: cost = null, totalTokensToday: tokens = null } = today.value ?? {};
  if (cost == null && !tokens) return html`<span class="tool-name" aria-hidden="true">Usage</span>`;
  return html`<b>${cost == null ? "unpriced" : about(cost)}</b><span class="today-rest"> ${tokens != null && html`<span class="today-tokens">· ${short(tokens)} tokens </span>`}<span class="today-word">today</span></span>`;
}

/** Both figures in full, and how far to trust them. */
function todayExactly() {
  const { totalCostTodayUsd: cost = null, totalTokensToday: tokens = null } = today.value ?? {};
  const told = [cost != null && exactDollars(cost), tokens != null && `${tokens.toLocaleString()} tokens`].filter(Boolean).join(" and ");
  return told ? `Today so far: ${told}. Dollars are the agents' own where they report them, else from list prices` : "What was used up";
}

function Filter() {
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    /** @param {KeyboardEvent} press */
    const onKey = (press) => {
      const typing = press.target instanceof Element && press.target.closest("input, textarea");
      if (press.key !== "/" || typing || press.ctrlKey || press.metaKey || press.altKey) return;
      press.preventDefault();
      box.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  /** @param {KeyboardEvent} press */
  const onEscape = (press) => {
    if (press.key !== "Escape") return;
    query.value = "";
    box.current?.blur();
  };
  return html`<label class="filter">
    <${Icon} name="search" />
    <span class="sr">Filter by title, host, project, branch, model or state</span>
    <input ref=${box} type="search" placeholder="Filter" autocomplete="off" spellcheck=${false} maxlength="200" value=${query} onInput=${(/** @type {InputEvent} */ e) => (query.value = /** @type {HTMLInputElement} */ (e.target).value)} onKeyDown=${onEscape} />
    <kbd aria-hidden="true">/</kbd>
  </label>`;
}

const PHASE = {
  connecting: { icon: "refresh-cw", words: "Connecting" },
  live: { icon: "wifi", words: "Live" },
  reconnecting: { icon: "refresh-cw", words: "Reconnecting" },
  offline: { icon: "wifi-off", words: "Offline" },
  refused: { icon: "wifi-off", words: "Refused" },
  stale: { icon: "unplug", words: "Stale" },
  trouble: { icon: "triangle-alert", words: "Trouble" },
};

function Pill() {
  const link = linkState.value;
  const told = link.phase === "live" ? trouble.value : undefined;
  const phase = told ? (told.blind ? "stale" : "trouble") : link.phase;
  const { since } = told ?? link;
  const { icon, words } = PHASE[phase];
  const when = phase === "live" || phase === "connecting" ? "" : ` since ${timeOfDay(since)}`;
  return html`<p class="pill" role="status" data-phase=${phase} title=${phase === "live" ? `Live since ${timeOfDay(since)}` : ""}>
    <${Icon} name=${icon} /><span>${words}<span class="pill-when">${when}</span></span>
  </p>`;
}
