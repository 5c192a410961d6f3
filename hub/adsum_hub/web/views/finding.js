// @ts-check
/** Under the hosts: how the list is grouped, and the way to what narrows it, which is fetched when it is wanted. */
import { signal, useSignal } from "../vendor/signals.js";
import { view } from "../address.js";
import { FACETS, filtering, filters, searchOf } from "../filters.js";
import { keptSignal } from "../kept.js";
import { Icon, html } from "./html.js";
import { Lazy } from "./lazy.js";

const WAYS = [
  { path: "/", view: "board", name: "State" },
  { path: "/by/host", view: "host", name: "Host" },
  { path: "/by/project", view: "project", name: "Project" },
  { path: "/list", view: "list", name: "None" },
];

/** Whether a desk shows the facets although nothing is narrowed. */
const narrowing = keptSignal("narrowing", false);

const narrowWindow = matchMedia("(max-width: 640px)");
const phone = signal(narrowWindow.matches);
narrowWindow.addEventListener("change", () => (phone.value = narrowWindow.matches));

export function Finding() {
  if (phone.value && !filtering.value) return null;
  return html`<section class="facets" aria-label="Finding">${phone.value ? html`<div class="facets-row"><${Lazy} name="facets" part="Narrowed" quiet /></div>` : html`<${OnDesk} />`}</section>`;
}

export function Ways() {
  const search = searchOf(filters.value);
  return html`<nav class="ways-by" aria-label="Group by"><span class="ways-by-name" aria-hidden="true">Group by</span>
    <div class="ways-by-row">${WAYS.map((way) => html`<a key=${way.path} class="by" href=${way.path + search} aria-current=${view.value === way.view ? "page" : undefined}>${way.name}</a>`)}</div>
  </nav>`;
}

function OnDesk() {
  const open = narrowing.value || filtering.value;
  return html`<div class="facets-row">
      <${Ways} />
      <button class="pick" aria-expanded=${open} onClick=${() => (narrowing.value = !narrowing.value)} disabled=${filtering.value}><${Icon} name="list-filter" />Filter</button>
      ${open && html`<${Lazy} name="facets" part="Picks" quiet />`}
    </div>
    ${open && html`<${Lazy} name="facets" part="Narrowed" quiet save />`}`;
}

/** On a phone, beside the box that finds: everything in one sheet, within a thumb's reach. */
export function PhoneFilter() {
  const open = useSignal(false);
  if (!phone.value) return null;
  const held = FACETS.reduce((sum, facet) => sum + filters.value[facet].length, 0);
  return html`<button class="pick" aria-haspopup="dialog" aria-expanded=${open.value} onClick=${() => (open.value = true)}><${Icon} name="list-filter" /><span class="sr">Filter</span>${held > 0 && html`<span class="pick-count">${held}</span>`}</button>
    ${open.value && html`<${Lazy} name="facets" part="Filters" quiet onClose=${() => (open.value = false)} />`}`;
}
