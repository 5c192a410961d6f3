// @ts-check
/** The whole page: head, hosts, the board of three sections, tabs on a phone. */
import { chooseTab, opened, panel, tab } from "../address.js";
import { linkState, stale, trouble } from "../link.js";
import { here, known, total } from "../roster.js";
import { GROUPS, GROUP_LOOK } from "../states.js";
import { Details } from "./details.js";
import { Head } from "./head.js";
import { HistoryPanel } from "./history.js";
import { Hosts } from "./hosts.js";
import { Icon, counted, html } from "./html.js";
import { Empty, Loading, StaleBanner, Unreachable } from "./notices.js";
import { Section } from "./section.js";
import { UsagePanel } from "./usage.js";

/** @import { Group } from "../wire.js" */

export function Page() {
  const old = stale.value;
  const peopled = known.value && total.value > 0;
  return html`<${Head} filter=${peopled} />
    ${known.value && html`<${StaleBanner} /><div data-stale=${old}><${Hosts} /></div>`}
    <main class="main" data-stale=${known.value && old}><${Content} /></main>
    ${peopled && html`<${Tabs} stale=${old} /><${Announcer} />`}
    ${known.value && panel.value && html`<${{ usage: UsagePanel, history: HistoryPanel }[panel.value]} key=${panel.value} />`}
    ${known.value && opened.value && html`<${Details} key=${opened.value} id=${opened.value} />`}`;
}

function Content() {
  if (!known.value) {
    return ["offline", "refused"].includes(linkState.value.phase) ? html`<${Unreachable} />` : html`<${Loading} />`;
  }
  if (total.value === 0) return trouble.value?.blind ? html`<p class="nobody">Who is there will be known when Redis can be read.</p>` : html`<${Empty} />`;
  return html`<div class="board" data-tab=${tab.value}>
    ${GROUPS.map((group) => html`<${Section} key=${group} group=${group} />`)}
  </div>`;
}

/** @param {{stale: boolean}} props */
function Tabs({ stale }) {
  return html`<nav class="tabs" aria-label="Sections" data-stale=${stale}>
    ${GROUPS.map((group) => html`<${Tab} key=${group} group=${group} />`)}
  </nav>`;
}

/** @param {{group: Group}} props */
function Tab({ group }) {
  const { short, icon } = GROUP_LOOK[group];
  const count = here[group].value.length;
  /** @param {MouseEvent} click */
  const choose = (click) => {
    click.preventDefault();
    chooseTab(group);
    scrollTo({ top: 0 });
  };
  return html`<a class="tab" href=${`#${group}`} data-group=${group} aria-current=${tab.value === group ? "true" : undefined} onClick=${choose}>
    <span class="tab-icon"><${Icon} name=${icon} />${count > 0 && html`<span class="tab-count">${count > 999 ? "999+" : count}</span>`}</span>${short}
  </a>`;
}

/** Tells a screen reader when the count of those who need it changes. */
function Announcer() {
  const count = here.needs_you.value.length;
  return html`<p class="sr" role="status">${count === 0 ? "Nobody needs you" : `${counted(count, "agent needs", "agents need")} you`}</p>`;
}
