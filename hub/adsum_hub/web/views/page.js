// @ts-check
/** The whole page: head, hosts, the view that the address names, tabs on a phone, what lies over it. */
import { opened, tab, view } from "../address.js";
import { linkState, stale, trouble } from "../link.js";
import { offered } from "../offered.js";
import { countOf, known, total } from "../roster.js";
import { GROUPS } from "../states.js";
import { Finding } from "./finding.js";
import { Head } from "./head.js";
import { Hosts } from "./hosts.js";
import { counted, html } from "./html.js";
import { Lazy } from "./lazy.js";
import { Tabs } from "./nav.js";
import { Loading, StaleBanner, Unreachable } from "./notices.js";
import { Section } from "./section.js";

/** @import { ViewName } from "../address.js" */

/** Views that show the live list, and so need one. @type {ViewName[]} */
const LIVE = ["board", "list", "host", "project"];

export function Page() {
  const old = stale.value;
  const live = LIVE.includes(view.value);
  const over = opened.value !== null && view.value !== "session";
  return html`<${Head} filter=${live && known.value && total.value > 0} />
    ${known.value && html`<${StaleBanner} />${offered.value && html`<${Lazy} name="install" part="Offers" quiet />`}`}
    ${known.value && live && html`<div data-stale=${old}><${Hosts} /></div>`}
    ${live && known.value && total.value > 0 && html`<${Finding} />`}
    <main class="main" id="main" data-view=${view.value} data-stale=${known.value && old}><${Content} /></main>
    <${Tabs} stale=${old} />
    ${known.value && html`<${Announcer} />`}
    ${over && html`<${Lazy} name="session" part="Over" key=${opened.value} id=${opened.value} quiet />`}`;
}

function Content() {
  switch (view.value) {
    case "session":
      return html`<${Lazy} name="session" key=${opened.value} id=${opened.value} />`;
    case "hosts":
      return html`<${Lazy} name="machines" />`;
    case "usage":
    case "history":
    case "settings":
      return html`<${Lazy} key=${view.value} name=${view.value} />`;
    case "nowhere":
      return html`<div class="blank"><h2>There is no such page</h2><p><a class="link" href="/">Go to the board</a></p></div>`;
    default:
      return html`<${Live} />`;
  }
}

/** The live list in one of its forms, or why there is none. */
function Live() {
  if (!known.value) {
    return ["offline", "refused"].includes(linkState.value.phase) ? html`<${Unreachable} />` : html`<${Loading} />`;
  }
  if (total.value === 0) return trouble.value?.blind ? html`<p class="nobody">Who is there will be known when Redis can be read.</p>` : html`<${Lazy} name="empty" />`;
  if (view.value === "list") return html`<${Lazy} name="list" />`;
  if (view.value !== "board") return html`<${Lazy} name="grouped" key=${view.value} by=${view.value} />`;
  return html`<div class="board" data-tab=${tab.value}>
    ${GROUPS.map((group) => html`<${Section} key=${group} group=${group} />`)}
  </div>`;
}

/** Tells a screen reader when the count of those who need it changes. */
function Announcer() {
  const count = countOf("needs_you");
  return html`<p class="sr" role="status">${count === 0 ? "Nobody needs you" : `${counted(count, "agent needs", "agents need")} you`}</p>`;
}
