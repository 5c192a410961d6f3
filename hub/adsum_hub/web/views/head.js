// @ts-check
/** Top of the page: name, views, filter, what today has cost, connection pill. */
import { moment } from "../clock.js";
import { about, exactDollars, short } from "../figures.js";
import { me } from "../fetching.js";
import { narrow, query } from "../filters.js";
import { show } from "../keys.js";
import { lastLiveAt } from "../last_live.js";
import { linkState, trouble } from "../link.js";
import { known } from "../roster.js";
import { today } from "../today.js";
import { PhoneFilter } from "./finding.js";
import { Icon, html } from "./html.js";
import { Nav } from "./nav.js";

const PALETTE_KEY = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ K" : "Ctrl K";

/** @param {{filter: boolean}} props there is something to filter */
export function Head({ filter }) {
  return html`<header class="head">
    <h1 class="brand"><a href="/"><img src="/static/icon.svg" alt="" width="26" height="26" /><span class="brand-name">Adsum</span></a></h1>
    ${me.value?.demo && html`<p class="demo" title="A fleet that is made up. Nothing of yours is here">Demo</p>`}
    <${Nav} />
    ${filter && html`<${Filter} /><${PhoneFilter} />`}
    <div class="head-end">${known.value && html`<${Today} />`}<${Pill} /></div>
  </header>`;
}

/** What today has cost, on the way to the rest of it; nothing where nothing was used up. */
function Today() {
  const { totalCostTodayUsd: cost = null, totalTokensToday: tokens = null } = today.value ?? {};
  if (!tokens && !cost) return null;
  return html`<a class="tool" href="/usage" title=${todayExactly(cost, tokens)}><${Icon} name="wallet" /><span><span class="sr">Used up: </span><b>${cost == null ? "unpriced" : about(cost)}</b><span class="today-rest"> ${tokens != null && html`<span class="today-tokens">· ${short(tokens)} tokens </span>`}<span class="today-word">today</span></span></span></a>`;
}

/** Both figures in full, and how far to trust them. @param {number | null} cost @param {number | null} tokens */
function todayExactly(cost, tokens) {
  const told = [cost != null && exactDollars(cost), tokens != null && `${tokens.toLocaleString()} tokens`].filter(Boolean).join(" and ");
  return `Today so far: ${told}. Dollars are the agents' own where they report them, else from list prices`;
}

function Filter() {
  /** @param {KeyboardEvent} press */
  const onEscape = (press) => {
    if (press.key !== "Escape") return;
    narrow({ q: "" });
    /** @type {HTMLElement} */ (press.target).blur();
  };
  return html`<div class="filter" role="search">
    <${Icon} name="search" />
    <label class="sr" for="filter">Filter by title, host, project, branch, model or state</label>
    <input id="filter" type="search" placeholder="Filter" autocomplete="off" spellcheck=${false} maxlength="200" value=${query} onInput=${(/** @type {InputEvent} */ e) => narrow({ q: /** @type {HTMLInputElement} */ (e.target).value })} onKeyDown=${onEscape} />
    <button class="filter-key" title="Search and commands" aria-label=${`Command palette, ${PALETTE_KEY}`} onClick=${() => show("palette")}><kbd>${PALETTE_KEY}</kbd></button>
  </div>`;
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
  // A page that was never live knows it from those before it, or not at all.
  const since = (told ?? link).since || lastLiveAt();
  const { icon, words } = PHASE[phase];
  const when = phase === "live" || phase === "connecting" || !since ? "" : ` since ${moment(since)}`;
  return html`<p class="pill" role="status" data-phase=${phase} title=${phase === "live" ? `Live since ${moment(since)}` : ""}>
    <${Icon} name=${icon} /><span>${words}<span class="pill-when">${when}</span></span>
  </p>`;
}
