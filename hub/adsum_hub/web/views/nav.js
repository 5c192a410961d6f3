// @ts-check
/** The ways to the views: a row in the head on a desk, tabs below on a phone. */
import { useSignal } from "../vendor/signals.js";
import { chooseTab, go, tab, view } from "../address.js";
import { filters, searchOf } from "../filters.js";
import { countOf } from "../roster.js";
import { GROUPS, GROUP_LOOK } from "../states.js";
import { Icon, html } from "./html.js";
import { Lazy } from "./lazy.js";
import { TabMark } from "./mark.js";

/** @import { ViewName } from "../address.js" */
/** @import { Group } from "../wire.js" */

/** @typedef {{path: string, views: ViewName[], name: string, icon: string}} Place */

/** The whole list; those that the head shows first. @type {Place[]} */
export const PLACES = [
  { path: "/", views: ["board", "host", "project"], name: "Board", icon: "columns-3" },
  { path: "/list", views: ["list"], name: "List", icon: "list" },
  { path: "/hosts", views: ["hosts"], name: "Hosts", icon: "server" },
  { path: "/usage", views: ["usage"], name: "Usage", icon: "wallet" },
  { path: "/history", views: ["history"], name: "History", icon: "archive" },
  { path: "/settings", views: ["settings"], name: "Settings", icon: "settings" },
];

export function Nav() {
  const search = searchOf(filters.value);
  return html`<nav class="nav" aria-label="Views">
    ${PLACES.map(
      ({ path, views, name, icon }) => html`<a key=${path} class="nav-link" href=${path + (isLive(path) ? search : "")} data-path=${path} aria-current=${views.includes(view.value) ? "page" : undefined} title=${name}><${Icon} name=${icon} /><span class="nav-name">${name}</span></a>`,
    )}
  </nav>`;
}

/** @param {string} path */
function isLive(path) {
  return path === "/" || path === "/list";
}

/** @param {{stale: boolean}} props */
export function Tabs({ stale }) {
  const more = useSignal(false);
  const elsewhere = view.value !== "board";
  return html`<nav class="tabs" aria-label="Sections" data-stale=${stale}>
      ${GROUPS.map((group) => html`<${Tab} key=${group} group=${group} elsewhere=${elsewhere} />`)}
      <button class="tab" aria-haspopup="dialog" aria-expanded=${more.value} aria-current=${elsewhere ? "true" : undefined} onClick=${() => (more.value = true)}>
        <span class="tab-icon"><${Icon} name="ellipsis" /></span>More
      </button>
    </nav>
    ${more.value && html`<${Lazy} name="menu" quiet onClose=${() => (more.value = false)} />`}`;
}

/** @param {{group: Group, elsewhere: boolean}} props */
function Tab({ group, elsewhere }) {
  const { short, icon } = GROUP_LOOK[group];
  const count = countOf(group);
  /** @param {MouseEvent} click */
  const choose = (click) => {
    click.preventDefault();
    if (elsewhere) go("/");
    chooseTab(group);
    scrollTo({ top: 0 });
  };
  return html`<a class="tab" href=${`/#${group}`} data-group=${group} aria-current=${!elsewhere && tab.value === group ? "true" : undefined} onClick=${choose}>
    <span class="tab-icon"><${Icon} name=${icon} />${count > 0 && html`<span class="tab-count">${count > 999 ? "999+" : count}</span>`}<${TabMark} group=${group} /></span>${short}
  </a>`;
}
