// @ts-check
/** What narrows the list, and views that were saved: in the row under the hosts, on a phone in a sheet. */
import { useEffect, useMemo } from "../vendor/preact-hooks.js";
import { computed, useSignal } from "../vendor/signals.js";
import { plain } from "../asks.js";
import { FACETS, clearFilters, filtering, filters, narrow, toggle } from "../filters.js";
import { tallied, watchTally } from "../facets.js";
import { saved } from "../saved.js";
import { GROUPS } from "../states.js";
import { Icon, counted, html } from "./html.js";
import { FACET_LOOK, OFFERED, nameOf } from "./naming.js";
import { Ways } from "./finding.js";
import { Popover } from "./popover.js";
import { SavedMenu } from "./saved.js";
import { Sheet } from "./sheet.js";

/** @import { Facet } from "../filters.js" */

export { SavedEditor } from "./saved.js";

/** More values than one reads through get a search box; so many are drawn at most. */
const MANY = 8;
const MOST = 100;
/** An address may hold hundreds of filters. */
const CHIPS = 12;
/** host-2 before host-10. */
const BY_NAME = new Intl.Collator(undefined, { numeric: true });

/** Facets that tell sessions apart, and those that narrow already. As words, so that new figures draw nothing again. */
const offered = computed(() => OFFERED.filter((facet) => tallied.value.counts[facet].size > 1 || filters.value[facet].length > 0).join(" "));
const held = computed(() => FACETS.reduce((sum, facet) => sum + filters.value[facet].length, 0));
/** What says how many are left, and says it again only if it is another number. */
const left = computed(() => (filtering.value ? `${counted(tallied.value.left, "session matches", "sessions match")} the filters` : ""));

/** @returns {Facet[]} */
function offeredFacets() {
  return /** @type {Facet[]} */ (offered.value.split(" ").filter(Boolean));
}

/** On a desk, beside the ways to group. */
export function Picks() {
  useEffect(watchTally, []);
  return html`<div class="picks" role="group" aria-label="Narrow by">${offeredFacets().map((facet) => html`<${Pick} key=${facet} facet=${facet} />`)}</div>
    <${Popover} id="saved-views" label="Saved views" kind="pick pick-saved" button=${html`<${Icon} name="star" />Saved views${saved.value.length > 0 && html`<span class="pick-count">${saved.value.length}</span>`}`}><${SavedMenu} /><//>`;
}

/** @param {{onClose: () => void}} props */
export function Filters({ onClose }) {
  useEffect(watchTally, []);
  return html`<${Sheet} name="filters" title="Filter" onClose=${onClose}>
    <${Ways} />
    <${Narrowed} />
    ${offeredFacets().map((facet) => html`<${Fold} key=${facet} facet=${facet} />`)}
    <details class="fold"><summary><${Icon} name="star" />Saved views<span class="fold-held">${saved.value.length || ""}</span><${Icon} name="chevron-down" /></summary><${SavedMenu} onGo=${onClose} /></details>
    <button class="filters-done" onClick=${onClose}>Show ${counted(tallied.value.left, "session")}</button>
  <//>`;
}

/** @param {{facet: Facet}} props */
function Fold({ facet }) {
  const { name, icon } = FACET_LOOK[facet];
  const values = filters.value[facet];
  const open = useMemo(() => values.length > 0, []);
  return html`<details class="fold" open=${open}><summary><${Icon} name=${icon} />${name}<bdi class="fold-held">${values.map((value) => nameOf(facet, value)).join(", ")}</bdi><${Icon} name="chevron-down" /></summary><${Values} facet=${facet} /></details>`;
}

/** @param {{facet: Facet}} props */
function Pick({ facet }) {
  const { name } = FACET_LOOK[facet];
  const count = filters.value[facet].length;
  return html`<${Popover} id=${`facet-${facet}`} label=${`Narrow by ${name.toLowerCase()}`} button=${html`${name}${count > 0 && html`<span class="pick-count">${count}<span class="sr"> chosen</span></span>`}<${Icon} name="chevron-down" />`}><${Values} facet=${facet} /><//>`;
}

/** @param {Facet} facet those that hold first, then the most frequent; groups as they stand on the board */
function orderOf(facet) {
  const chosen = filters.peek()[facet];
  const counts = tallied.peek().counts[facet];
  const known = [...counts.keys()].filter((value) => !chosen.includes(value));
  known.sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || BY_NAME.compare(nameOf(facet, a), nameOf(facet, b)));
  return facet === "group" ? [...new Set([...GROUPS, ...chosen])] : [...chosen, ...known];
}

/** The values with their counts. Who stands where is settled as it opens: nothing moves under the pointer. @param {{facet: Facet}} props */
function Values({ facet }) {
  const sought = useSignal("");
  const first = useMemo(() => orderOf(facet), [facet]);
  const counts = tallied.value.counts[facet];
  const chosen = filters.value[facet];
  const all = [...new Set([...first, ...counts.keys()])].filter((value) => counts.has(value) || chosen.includes(value));
  const words = sought.value.trim().toLowerCase();
  const found = words ? all.filter((value) => `${nameOf(facet, value)}\n${value}`.toLowerCase().includes(words)) : all;
  const name = FACET_LOOK[facet].name.toLowerCase();
  return html`${all.length > MANY && html`<label class="filter seek-value"><${Icon} name="search" /><span class="sr">Search by ${name}</span>
      <input type="search" data-first="" autocomplete="off" spellcheck=${false} maxlength="200" placeholder=${counted(all.length, "value")} value=${sought} onInput=${(/** @type {InputEvent} */ e) => (sought.value = /** @type {HTMLInputElement} */ (e.target).value)} /></label>`}
    <ul class="values" aria-label=${FACET_LOOK[facet].name}>${found.slice(0, MOST).map((value) => html`<${Value} key=${value} facet=${facet} value=${value} count=${counts.get(value)} chosen=${chosen.includes(value)} />`)}</ul>
    ${found.length === 0 && html`<p class="values-none">No value matches.</p>`}
    ${found.length > MOST && html`<p class="values-none">${(found.length - MOST).toLocaleString()} more: search for them.</p>`}`;
}

/** @param {{facet: Facet, value: string, count: number | undefined, chosen: boolean}} props */
function Value({ facet, value, count, chosen }) {
  return html`<li><label class="value" data-none=${!count}><input type="checkbox" checked=${chosen} onChange=${() => toggle(facet, value)} /><bdi class="value-name" title=${plain(value)}>${nameOf(facet, value)}</bdi>
    <span class="value-count">${count === undefined ? "no match" : html`${count.toLocaleString()}<span class="sr"> sessions</span>`}</span></label></li>`;
}

/** What narrows now, each of it to be taken away. save: the way to keep it stands there too. @param {{save?: boolean}} props */
export function Narrowed({ save = false }) {
  // Beside the facets, these watch already.
  useEffect(() => (save ? undefined : watchTally()), []);
  const whole = useSignal(false);
  if (!filtering.value) return null;
  const all = OFFERED.flatMap((facet) => filters.value[facet].map((value) => ({ facet, value })));
  const drawn = whole.value ? all : all.slice(0, CHIPS);
  return html`<p class="sr" role="status">${left}</p><ul class="narrowed" aria-label="Filters">
    ${filters.value.q.trim() && html`<${Chip} key="q" name="Words" value=${plain(filters.value.q.trim(), 80)} onRemove=${() => narrow({ q: "" })} />`}
    ${drawn.map(({ facet, value }) => html`<${FacetChip} key=${`${facet} ${value}`} facet=${facet} value=${value} />`)}
    ${drawn.length < all.length && html`<li key="more"><button class="narrowed-act" onClick=${() => (whole.value = true)}>${all.length - drawn.length} more</button></li>`}
    <li key="clear"><button class="narrowed-act" onClick=${clearAll}>Clear all</button></li>
    ${save && html`<li key="save"><button class="narrowed-act" popovertarget="saved-views" popovertargetaction="show"><${Icon} name="star" />Save view</button></li>`}
  </ul>`;
}

/** @param {MouseEvent} click */
function clearAll(click) {
  refocus(/** @type {Element} */ (click.currentTarget), null);
  clearFilters();
}

/** @param {{facet: Facet, value: string}} props */
function FacetChip({ facet, value }) {
  // Not before somebody has been counted: a page that has just come does not know better.
  const none = useMemo(() => computed(() => tallied.value.counts.group.size > 0 && !tallied.value.counts[facet].has(value)), [facet, value]);
  return html`<${Chip} name=${FACET_LOOK[facet].name} value=${nameOf(facet, value)} none=${none.value} onRemove=${() => toggle(facet, value)} />`;
}

/** @param {{name: string, value: string, none?: boolean, onRemove: () => void}} props */
function Chip({ name, value, none = false, onRemove }) {
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    const button = /** @type {Element} */ (click.currentTarget);
    const item = button.closest("li");
    refocus(button, (item?.nextElementSibling ?? item?.previousElementSibling)?.querySelector("button") ?? null);
    onRemove();
  };
  return html`<li><button class="narrowed-chip" data-none=${none} onClick=${onClick}><span class="sr">Remove filter </span><span class="narrowed-name">${name}:</span> <bdi>${value}</bdi>${none && html`<span class="narrowed-none">no match</span>`}<${Icon} name="x" /></button></li>`;
}

/** What is pressed goes away; whoever uses the keyboard goes on from its neighbour. @param {Element} pressed @param {HTMLElement | null} next */
function refocus(pressed, next) {
  if (held.peek() > 1 && next) return next.focus();
  /** @type {HTMLElement | null} */ (pressed.closest(".facets, .sheet-inner")?.querySelector(".pick, .by"))?.focus();
}
