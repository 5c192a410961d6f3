// @ts-check
/** Top of the page: name, views, filter, what today has cost, connection pill. On a phone the tabs below. */
import { computed, effect, signal } from "../vendor/signals-core.js";
import { useEffect } from "../vendor/preact-hooks.js";
import { TabMark } from "../board/card.js";
import { askHub, me } from "../core/api.js";
import { filtering, filters, narrow, query, searchOf } from "../core/filters.js";
import { about, exactDollars, moment, short } from "../core/format.js";
import { linkState, trouble } from "../core/link.js";
import { chooseTab, go, overlay, show, tab, view } from "../core/navigation.js";
import { countOf, known, lastLiveAt, shown } from "../core/roster.js";
import { isList, pathTo, PLACES, routeOf } from "../core/routes.js";
import { GROUP_LOOK, GROUPS } from "../core/states.js";
import { PhoneFilter } from "../filter/bar.js";
import { html, Icon } from "../ui/html.js";

/** @import { Group, Summary } from "../wire.js" */

const PALETTE_KEY = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ K" : "Ctrl K";

/** @param {{filter: boolean}} props there is something to filter */
export function Head({ filter }) {
  return html`
    <header class="head">
      <h1 class="brand">
        <a href=${pathTo("board")}>
          <img src="/static/icon.svg" alt="" width="26" height="26" />
          <span class="brand-name">Adsum</span>
        </a>
      </h1>
      ${me.value?.demo && html`
        <p class="demo" title="Made-up sessions: none of them is yours">
          Demo
        </p>
      `}
      <${Nav} />
      ${filter && html`
        <${Filter} />
        <${PhoneFilter} />
      `}
      <div class="head-end">
        ${known.value && html`<${Today} />`}
        <${Pill} />
      </div>
    </header>
  `;
}

const EVERY_MS = 15_000;

/** Nothing until the hub has said. */
const today = signal(/** @type {Summary | undefined} */ (undefined));

async function ask() {
  if (document.visibilityState === "hidden") return;
  const { body } = await askHub("/api/v1/summary", AbortSignal.timeout(EVERY_MS));
  // What goes wrong is the link's to tell; here the last word stands.
  if (typeof body === "object" && body) today.value = body;
}

function watchToday() {
  const live = computed(() => linkState.value.phase === "live");
  return effect(() => {
    if (!live.value) return;
    ask();
    const timer = setInterval(ask, EVERY_MS);
    document.addEventListener("visibilitychange", ask);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", ask);
    };
  });
}

/** What today has cost, on the way to the rest of it; nothing where nothing was used up. */
function Today() {
  useEffect(watchToday, []);
  const { totalCostTodayUsd: cost = null, totalTokensToday: tokens = null } = today.value ?? {};
  if (!tokens && !cost) return null;
  return html`
    <a class="tool" href=${pathTo("usage")} title=${todayExactly(cost, tokens)}>
      <${Icon} name="wallet" />
      <span>
        <span class="sr">Used up: </span>
        <b>${cost == null ? "unpriced" : about(cost)}</b>
        <span class="today-rest">
          ${" "}
          ${tokens != null && html`<span class="today-tokens">· ${short(tokens)} tokens </span>`}
          <span class="today-word">today</span>
        </span>
      </span>
    </a>
  `;
}

/** Both figures in full, and how far to trust them. @param {number | null} cost @param {number | null} tokens */
function todayExactly(cost, tokens) {
  const told = [cost != null && exactDollars(cost), tokens != null && `${tokens.toLocaleString()} tokens`]
    .filter(Boolean)
    .join(" and ");
  return `Today so far: ${told}. Dollars as reported by the agents, else from list prices`;
}

function Filter() {
  /** @param {KeyboardEvent} press */
  const onEscape = (press) => {
    if (press.key !== "Escape") return;
    narrow({ q: "" });
    /** @type {HTMLElement} */ (press.target).blur();
  };
  return html`
    <div class="filter" role="search">
      <${Icon} name="search" />
      <label class="sr" for="filter">
        Filter by title, host, project, branch, model or state
      </label>
      <input
        id="filter"
        type="search"
        placeholder="Filter"
        autocomplete="off"
        spellcheck=${false}
        maxlength="200"
        value=${query}
        onInput=${(/** @type {InputEvent} */ e) => narrow({ q: /** @type {HTMLInputElement} */ (e.target).value })}
        onKeyDown=${onEscape}
      />
      <button
        class="filter-key"
        title="Search and commands"
        aria-label=${`Command palette, ${PALETTE_KEY}`}
        onClick=${() => show("palette")}
      >
        <kbd>${PALETTE_KEY}</kbd>
      </button>
    </div>
  `;
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
  return html`
    <p class="pill" role="status" data-phase=${phase} title=${phase === "live" ? `Live since ${moment(since)}` : ""}>
      <${Icon} name=${icon} />
      <span>
        ${words}
        <span class="pill-when">${when}</span>
      </span>
    </p>
  `;
}

export function Nav() {
  const search = searchOf(filters.value);
  return html`
    <nav class="nav" aria-label="Views">
      ${PLACES.map(({ view: name, path, title, icon }) => html`
        <a
          key=${path}
          class="nav-link"
          href=${path + (isList(name) ? search : "")}
          data-path=${path}
          aria-current=${(routeOf(view.value).of ?? view.value) === name ? "page" : undefined}
          title=${title}
        >
          <${Icon} name=${icon} />
          <span class="nav-name">${title}</span>
        </a>
      `)}
    </nav>
  `;
}

/** @param {{stale: boolean}} props */
export function Tabs({ stale }) {
  const elsewhere = view.value !== "board";
  return html`
    <nav class="tabs" aria-label="Sections" data-stale=${stale}>
      ${GROUPS.map((group) => html`
        <${Tab} key=${group} group=${group} elsewhere=${elsewhere} />
      `)}
      <button
        class="tab"
        aria-haspopup="dialog"
        aria-expanded=${overlay.value?.name === "menu"}
        aria-current=${elsewhere ? "true" : undefined}
        onClick=${() => show("menu")}
      >
        <span class="tab-icon">
          <${Icon} name="ellipsis" />
        </span>
        More
      </button>
    </nav>
  `;
}

/** @param {{group: Group, elsewhere: boolean}} props */
function Tab({ group, elsewhere }) {
  const { short, icon } = GROUP_LOOK[group];
  const count = filtering.value ? shown[group].here.value.length : countOf(group);
  /** @param {MouseEvent} click */
  const choose = (click) => {
    click.preventDefault();
    if (elsewhere) go(pathTo("board"));
    chooseTab(group);
    scrollTo({ top: 0 });
  };
  return html`
    <a
      class="tab"
      href=${`${pathTo("board")}#${group}`}
      data-group=${group}
      aria-current=${!elsewhere && tab.value === group ? "true" : undefined}
      onClick=${choose}
    >
      <span class="tab-icon">
        <${Icon} name=${icon} />
        ${count > 0 && html`<span class="tab-count">${count > 999 ? "999+" : count}</span>`}
        <${TabMark} group=${group} />
      </span>
      ${short}
    </a>
  `;
}
