// @ts-check
/** The whole page: head, hosts, the view that the address names, tabs on a phone, what lies over it. */
import { Section } from "../board/view.js";
import { done, saying } from "../core/attention.js";
import { counted } from "../core/format.js";
import { linkState, stale, trouble } from "../core/link.js";
import { hide, offered, opened, overlay, tab, view } from "../core/navigation.js";
import { countOf, known, total } from "../core/roster.js";
import { isList, pathTo } from "../core/routes.js";
import { GROUPS } from "../core/states.js";
import { FilterBar } from "../filter/bar.js";
import { Head, Tabs } from "./head.js";
import { Empty, Loading, StaleBanner, Unreachable } from "./notices.js";
import { Hosts } from "../hosts/strip.js";
import { html, lazy } from "../ui/html.js";

const List = lazy(() => import("../list/view.js"), "list/list");
const Grouped = lazy(() => import("../list/grouped.js"), "list/grouped");
const Session = lazy(() => import("../session/view.js"), "session/session", "control/control", "ui/sheet");
const HostsView = lazy(() => import("../hosts/view.js"), "hosts/hosts");
const Usage = lazy(() => import("../usage/view.js"), "usage/usage");
const History = lazy(() => import("../history/view.js"), "history/history");
const Settings = lazy(() => import("../settings/view.js"), "settings/settings");
const Install = lazy(() => import("../install/view.js"), "install/install");
const Palette = lazy(() => import("../palette/view.js"), "palette/palette");
const Said = lazy(() => import("../control/view.js"), "control/control");
const Sheets = lazy(() => import("./sheets.js"), "frame/sheets", "ui/sheet");

export function Page() {
  const old = stale.value;
  const live = isList(view.value);
  const over = opened.value !== null && view.value !== "session";
  return html`
    <${Head} filter=${live && known.value && total.value > 0} />
    ${known.value && html`
      <${StaleBanner} />
      ${offered.value && html`<${Install} part="Offers" quiet />`}
    `}
    ${known.value && live && html`
      <div data-stale=${old}>
        <${Hosts} />
      </div>
    `}
    ${live && known.value && total.value > 0 && html`<${FilterBar} />`}
    <main class="main" id="main" data-view=${view.value} data-stale=${known.value && old}>
      <${Content} />
    </main>
    <${Tabs} stale=${old} />
    ${known.value && html`<${Announcer} />`}
    ${over && html`<${Session} part="Over" key=${opened.value} id=${opened.value} quiet />`}
    <${Overlays} />
    ${(done.value || saying.value) && !over && html`<${Said} part="Said" quiet />`}
  `;
}

function Content() {
  switch (view.value) {
    case "session":
      return html`<${Session} key=${opened.value} id=${opened.value} />`;
    case "hosts":
      return html`<${HostsView} />`;
    case "usage":
      return html`<${Usage} />`;
    case "history":
      return html`<${History} />`;
    case "settings":
      return html`<${Settings} />`;
    case "nowhere":
      return html`
        <div class="blank">
          <h2>Page not found</h2>
          <p>
            <a class="link" href=${pathTo("board")}>
              Go to the board
            </a>
          </p>
        </div>
      `;
    default:
      return html`<${Live} />`;
  }
}

/** The live list in one of its forms, or why there is none. */
function Live() {
  if (!known.value) {
    return ["offline", "refused"].includes(linkState.value.phase) ? html`<${Unreachable} />` : html`<${Loading} />`;
  }
  if (total.value === 0)
    return trouble.value?.blind ? html`
      <p class="nobody">The sessions will be shown once the hub can read Redis.</p>
    ` : html`
      <${Empty} />
    `;
  if (view.value === "list") return html`<${List} />`;
  if (view.value !== "board") return html`<${Grouped} key=${view.value} by=${view.value} />`;
  return html`
    <div class="board" data-tab=${tab.value}>
      ${GROUPS.map((group) => html`
        <${Section} key=${group} group=${group} />
      `)}
    </div>
  `;
}

/** The palette, the menu or the list of keys, over everything. */
function Overlays() {
  const shown = overlay.value;
  if (!shown) return null;
  const onClose = () => hide(shown);
  if (shown.name === "palette") return html`<${Palette} quiet onClose=${onClose} />`;
  return html`
    <${Sheets} part=${shown.name === "menu" ? "Menu" : "Shortcuts"} key=${shown.name} quiet onClose=${onClose} />
  `;
}

/** Tells a screen reader when the count of those who need it changes. */
function Announcer() {
  const count = countOf("needs_you");
  return html`
    <p class="sr" role="status">
      ${count === 0 ? "Nobody needs you" : `${counted(count, "agent needs", "agents need")} you`}
    </p>
  `;
}
