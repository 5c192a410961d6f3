// @ts-check
/** Under the hosts: how the list is grouped, and the filters, which are fetched when they are wanted. */
import { signal } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import { FACETS, filtering, filters, searchOf } from "../core/filters.js";
import { view } from "../core/navigation.js";
import { storedSignal } from "../core/preferences.js";
import { LISTS } from "../core/routes.js";
import { html, Icon, lazy } from "../ui/html.js";

const Filter = lazy(() => import("./view.js"), "filter/filter", "ui/sheet");

/** Whether a desk shows the facets although nothing is narrowed. */
const narrowing = storedSignal("narrowing", false);
const narrowWindow = matchMedia("(max-width: 640px)");
const phone = signal(narrowWindow.matches);

narrowWindow.addEventListener("change", () => (phone.value = narrowWindow.matches));

export function FilterBar() {
  if (phone.value && !filtering.value) return null;
  return html`
    <section class="facets" aria-label="Finding">
      ${phone.value ? html`
        <div class="facets-row">
          <${Filter} part="Narrowed" quiet />
        </div>
      ` : html`
        <${DeskFilter} />
      `}
    </section>
  `;
}

function GroupBy() {
  const search = searchOf(filters.value);
  return html`
    <nav class="ways-by" aria-label="Group by">
      <span class="ways-by-name" aria-hidden="true">
        Group by
      </span>
      <div class="ways-by-row">
        ${LISTS.map((way) => html`
          <a
            key=${way.path}
            class="by"
            href=${way.path + search}
            aria-current=${view.value === way.view ? "page" : undefined}
          >
            ${way.groupedBy}
          </a>
        `)}
      </div>
    </nav>
  `;
}

function DeskFilter() {
  const open = narrowing.value || filtering.value;
  return html`
    <div class="facets-row">
      <${GroupBy} />
      <button
        class="pick"
        aria-expanded=${open}
        onClick=${() => (narrowing.value = !narrowing.value)}
        disabled=${filtering.value}
      >
        <${Icon} name="list-filter" />
        Filter
      </button>
      ${open && html`<${Filter} part="Picks" quiet />`}
    </div>
    ${open && html`<${Filter} part="Narrowed" quiet save />`}
  `;
}

/** On a phone, beside the box that finds: everything in one sheet, within a thumb's reach. */
export function PhoneFilter() {
  const open = useSignal(false);
  if (!phone.value) return null;
  const held = FACETS.reduce((sum, facet) => sum + filters.value[facet].length, 0);
  return html`
    <button class="pick" aria-haspopup="dialog" aria-expanded=${open.value} onClick=${() => (open.value = true)}>
      <${Icon} name="list-filter" />
      <span class="sr">Filter</span>
      ${held > 0 && html`<span class="pick-count">${held}</span>`}
    </button>
    ${open.value && html`<${Filter} part="Filters" quiet onClose=${() => (open.value = false)}><${GroupBy} /><//>`}
  `;
}
