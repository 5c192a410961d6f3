// @ts-check
/** Filters and saved views: in the row under the hosts, on a phone in a sheet. */
import { useEffect, useId, useMemo } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import {
  clearFilters,
  FACET_LOOK,
  FACETS,
  filtering,
  filters,
  narrow,
  OFFERED,
  searchOf,
  toggle,
  valueName,
} from "../core/filters.js";
import { counted, plain } from "../core/format.js";
import { view } from "../core/navigation.js";
import { isList, routeOf } from "../core/routes.js";
import { GROUPS } from "../core/states.js";
import {
  deleteView,
  holdsOf,
  inWords,
  LONGEST_VIEW_NAME,
  moveView,
  openView,
  renameView,
  saved,
  savedTrouble,
  saveView,
  tallied,
  watchTally,
} from "./state.js";
import { sort, withSort } from "../list/state.js";
import { html, Icon } from "../ui/html.js";
import { closeAround, Popover, Sheet } from "../ui/overlays.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { Facet } from "../core/filters.js" */
/** @import { SavedView } from "./state.js" */

/** More values than one reads through get a search box; so many are drawn at most. */
const MANY = 8;
const MOST_VALUES = 100;
/** An address may hold hundreds of filters. */
const CHIPS = 12;
/** host-2 before host-10. */
const BY_NAME = new Intl.Collator(undefined, { numeric: true });

/** Facets that tell sessions apart, and those that narrow already. As words, so that new figures draw nothing again. */
const offered = computed(() =>
  OFFERED.filter((facet) => tallied.value.counts[facet].size > 1 || filters.value[facet].length > 0).join(" "),
);

const held = computed(() => FACETS.reduce((sum, facet) => sum + filters.value[facet].length, 0));

/** What says how many are left, and says it again only if it is another number. */
const left = computed(() =>
  filtering.value ? `${counted(tallied.value.left, "session matches", "sessions match")} the filters` : "",
);

/** @returns {Facet[]} */
function offeredFacets() {
  return /** @type {Facet[]} */ (offered.value.split(" ").filter(Boolean));
}

/** On a desk, beside the ways to group. */
export function Picks() {
  useEffect(watchTally, []);
  return html`
    <div class="picks" role="group" aria-label="Filter by">
      ${offeredFacets().map((facet) => html`
        <${Pick} key=${facet} facet=${facet} />
      `)}
    </div>
    <${Popover}
      id="saved-views"
      label="Saved views"
      kind="pick pick-saved"
      button=${
        html`
          <${Icon} name="star" />
          Saved views${saved.value.length > 0 && html`<span class="pick-count">${saved.value.length}</span>`}
        `
      }
    >
      <${SavedMenu} />
    <//>
  `;
}

/** On a phone. children: what stands first. @param {{onClose: () => void, children?: ComponentChildren}} props */
export function Filters({ onClose, children }) {
  useEffect(watchTally, []);
  return html`
    <${Sheet} name="filters" title="Filter" onClose=${onClose}>
      ${children}
      <${Narrowed} />
      ${offeredFacets().map((facet) => html`
        <${Fold} key=${facet} facet=${facet} />
      `)}
      <details class="fold">
        <summary>
          <${Icon} name="star" />
          Saved views<span class="fold-held">${saved.value.length || ""}</span>
          <${Icon} name="chevron-down" />
        </summary>
        <${SavedMenu} onGo=${onClose} />
      </details>
      <button class="filters-done" onClick=${onClose}>
        Show ${counted(tallied.value.left, "session")}
      </button>
    <//>
  `;
}

/** @param {{facet: Facet}} props */
function Fold({ facet }) {
  const { name, icon } = FACET_LOOK[facet];
  const values = filters.value[facet];
  const open = useMemo(() => values.length > 0, []);
  return html`
    <details class="fold" open=${open}>
      <summary>
        <${Icon} name=${icon} />
        ${name}
        <bdi class="fold-held">${values.map((value) => valueName(facet, value)).join(", ")}</bdi>
        <${Icon} name="chevron-down" />
      </summary>
      <${Values} facet=${facet} />
    </details>
  `;
}

/** @param {{facet: Facet}} props */
function Pick({ facet }) {
  const { name } = FACET_LOOK[facet];
  const count = filters.value[facet].length;
  return html`
    <${Popover}
      id=${`facet-${facet}`}
      label=${`Filter by ${name.toLowerCase()}`}
      button=${
        html`
          ${name}
          ${count > 0 && html`
            <span class="pick-count">
              ${count}
              <span class="sr"> chosen</span>
            </span>
          `}
          <${Icon} name="chevron-down" />
        `
      }
    >
      <${Values} facet=${facet} />
    <//>
  `;
}

/** @param {Facet} facet those that hold first, then the most frequent; groups as they stand on the board */
function orderOf(facet) {
  const chosen = filters.peek()[facet];
  const counts = tallied.peek().counts[facet];
  const known = [...counts.keys()].filter((value) => !chosen.includes(value));
  known.sort(
    (a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || BY_NAME.compare(valueName(facet, a), valueName(facet, b)),
  );
  return facet === "group" ? [...new Set([...GROUPS, ...chosen])] : [...chosen, ...known];
}

/**
 * The values with their counts. Who stands where is settled as it opens: nothing moves under the pointer.
 * @param {{facet: Facet}} props
 */
function Values({ facet }) {
  const sought = useSignal("");
  const first = useMemo(() => orderOf(facet), [facet]);
  const counts = tallied.value.counts[facet];
  const chosen = filters.value[facet];
  const all = [...new Set([...first, ...counts.keys()])].filter(
    (value) => counts.has(value) || chosen.includes(value),
  );
  const words = sought.value.trim().toLowerCase();
  const found = words
    ? all.filter((value) => `${valueName(facet, value)}\n${value}`.toLowerCase().includes(words))
    : all;
  const name = FACET_LOOK[facet].name.toLowerCase();
  return html`
    ${all.length > MANY && html`
      <label class="filter seek-value">
        <${Icon} name="search" />
        <span class="sr">Search by ${name}</span>
        <input
          type="search"
          data-first=""
          autocomplete="off"
          spellcheck=${false}
          maxlength="200"
          placeholder=${counted(all.length, "value")}
          value=${sought}
          onInput=${(/** @type {InputEvent} */ e) =>
            (sought.value = /** @type {HTMLInputElement} */ (e.target).value)
          }
        />
      </label>
    `}
    <ul class="values" aria-label=${FACET_LOOK[facet].name}>
      ${found.slice(0, MOST_VALUES).map((value) => html`
        <${Value}
          key=${value}
          facet=${facet}
          value=${value}
          count=${counts.get(value)}
          chosen=${chosen.includes(value)}
        />
      `)}
    </ul>
    ${found.length === 0 && html`<p class="values-none">No value matches.</p>`}
    ${found.length > MOST_VALUES && html`
      <p class="values-none">${(found.length - MOST_VALUES).toLocaleString()} more: search for them.</p>
    `}
  `;
}

/** @param {{facet: Facet, value: string, count: number | undefined, chosen: boolean}} props */
function Value({ facet, value, count, chosen }) {
  return html`
    <li>
      <label class="value" data-none=${!count}>
        <input type="checkbox" checked=${chosen} onChange=${() => toggle(facet, value)} />
        <bdi class="value-name" title=${plain(value)}>
          ${valueName(facet, value)}
        </bdi>
        <span class="value-count">
          ${count === undefined ? (
            "no match"
          ) : html`
            ${count.toLocaleString()}
            <span class="sr"> sessions</span>
          `}
        </span>
      </label>
    </li>
  `;
}

/**
 * What active, each of it to be taken away. save: the way to keep it stands there too.
 * @param {{save?: boolean}} props
 */
export function Narrowed({ save = false }) {
  // Beside the facets, these watch already.
  useEffect(() => (save ? undefined : watchTally()), []);
  const whole = useSignal(false);
  if (!filtering.value) return null;
  const all = OFFERED.flatMap((facet) => filters.value[facet].map((value) => ({ facet, value })));
  const drawn = whole.value ? all : all.slice(0, CHIPS);
  return html`
    <p class="sr" role="status">
      ${left}
    </p>
    <ul class="narrowed" aria-label="Filters">
      ${filters.value.q.trim() && html`
        <${Chip}
          key="q"
          name="Words"
          value=${plain(filters.value.q.trim(), 80)}
          onRemove=${() => narrow({ q: "" })}
        />
      `}
      ${drawn.map(({ facet, value }) => html`
        <${FacetChip} key=${`${facet} ${value}`} facet=${facet} value=${value} />
      `)}
      ${drawn.length < all.length && html`
        <li key="more">
          <button class="narrowed-act" onClick=${() => (whole.value = true)}>
            ${all.length - drawn.length} more
          </button>
        </li>
      `}
      <li key="clear">
        <button class="narrowed-act" onClick=${clearAll}>
          Clear all
        </button>
      </li>
      ${save && html`
        <li key="save">
          <button class="narrowed-act" popovertarget="saved-views" popovertargetaction="show">
            <${Icon} name="star" />
            Save view
          </button>
        </li>
      `}
    </ul>
  `;
}

/** @param {MouseEvent} click */
function clearAll(click) {
  refocus(/** @type {Element} */ (click.currentTarget), null);
  clearFilters();
}

/** @param {{facet: Facet, value: string}} props */
function FacetChip({ facet, value }) {
  // Not before somebody has been counted: a page that has just come does not know better.
  const none = useMemo(
    () => computed(() => tallied.value.counts.group.size > 0 && !tallied.value.counts[facet].has(value)),
    [facet, value],
  );
  return html`
    <${Chip}
      name=${FACET_LOOK[facet].name}
      value=${valueName(facet, value)}
      none=${none.value}
      onRemove=${() => toggle(facet, value)}
    />
  `;
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
  return html`
    <li>
      <button class="narrowed-chip" data-none=${none} onClick=${onClick}>
        <span class="sr">Remove filter </span>
        <span class="narrowed-name">${name}:</span> <bdi>${value}</bdi>
        ${none && html`<span class="narrowed-none">no match</span>`}
        <${Icon} name="x" />
      </button>
    </li>
  `;
}

/**
 * What is pressed goes away; whoever uses the keyboard goes on from its neighbour.
 * @param {Element} pressed
 * @param {HTMLElement | null} next
 */
function refocus(pressed, next) {
  if (held.peek() > 1 && next) return next.focus();
  /** @type {HTMLElement | null} */ (
    pressed.closest(".facets, .sheet-inner")?.querySelector(".pick, .by")
  )?.focus();
}

function SavedTrouble() {
  return (
    savedTrouble.value && html`
      <p class="saved-trouble" role="status">
        <${Icon} name="triangle-alert" />
        <span>${savedTrouble}</span>
      </p>
    `
  );
}

/** The list to go by, and the form for what is shown now. @param {{onGo?: () => void}} props */
export function SavedMenu({ onGo }) {
  return html`
    <div class="saved-menu">
      <${SavedTrouble} />
      ${saved.value.length > 0 && html`
        <ul class="saved-list">
          ${saved.value.map((each) => html`
            <li key=${each.name}>
              <${SavedLink} saved=${each} onGo=${onGo} />
            </li>
          `)}
        </ul>
      `}
      <${SaveForm} onSaved=${onGo} />
    </div>
  `;
}

/** @param {{saved: SavedView, onGo?: (() => void) | undefined}} props */
function SavedLink({ saved: each, onGo }) {
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    if (click.button !== 0 || click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    click.preventDefault();
    closeAround(click);
    onGo?.();
    openView(each);
  };
  return html`
    <a class="saved-way" href=${each.path + each.search} onClick=${onClick}>
      <${Icon} name="star" />
      <span class="saved-words">
        <bdi class="saved-name">${each.name}</bdi>
        <bdi class="saved-holds">${holdsOf(each)}</bdi>
      </span>
    </a>
  `;
}

/** @param {{onSaved?: (() => void) | undefined}} props */
function SaveForm({ onSaved }) {
  const { path, title } = routeOf(isList(view.value) ? view.value : "board");
  const usual = inWords(filters.value) || title;
  const name = useSignal(usual.slice(0, LONGEST_VIEW_NAME));
  const why = useSignal("");
  const id = useId();
  /** @param {SubmitEvent} submit */
  const onSubmit = (submit) => {
    submit.preventDefault();
    why.value = saveView(name.value, path, withSort(searchOf(filters.value), sort.value));
    if (why.value) return;
    closeAround(submit);
    onSaved?.();
  };
  const replaces = saved.value.some((each) => each.name === name.value.trim());
  return html`
    <form class="save" onSubmit=${onSubmit}>
      <label for=${id}>Save ${filtering.value ? "these filters" : "this view"} as</label>
      <div class="save-row">
        <input
          id=${id}
          data-first=${filtering.value ? "" : undefined}
          maxlength=${LONGEST_VIEW_NAME}
          autocomplete="off"
          spellcheck=${false}
          value=${name}
          aria-describedby=${`${id}-note`}
          onFocus=${(/** @type {FocusEvent} */ e) => /** @type {HTMLInputElement} */ (e.target).select()}
          onInput=${(/** @type {InputEvent} */ e) => (name.value = /** @type {HTMLInputElement} */ (e.target).value)}
        />
        <button class="button">${replaces ? "Replace" : "Save"}</button>
      </div>
      ${why.value && html`
        <p class="saved-trouble" role="alert">
          ${why}
        </p>
      `}
      <p class="save-note" id=${`${id}-note`}>
        Stored in this browser only.
      </p>
    </form>
  `;
}

/** For the settings: rename, delete, order. */
export function SavedEditor() {
  const last = saved.value.length - 1;
  return html`
    <div class="saved-views">
      <${SavedTrouble} />
      ${last < 0 && html`
        <p class="quiet">None yet. Filter the board or the list, then press Save view.</p>
      `}
      ${last >= 0 && html`
        <ol class="saved-edit">
          ${saved.value.map((each, i) => html`
            <${Editable} key=${each.name} saved=${each} first=${i === 0} last=${i === last} />
          `)}
        </ol>
      `}
      <p class="save-note">Saved views are stored in this browser only.</p>
    </div>
  `;
}

/** @param {{saved: SavedView, first: boolean, last: boolean}} props */
function Editable({ saved: each, first, last }) {
  const why = useSignal("");
  const { name } = each;
  /** @param {Event} change */
  const onChange = (change) => {
    const box = /** @type {HTMLInputElement} */ (change.target);
    why.value = renameView(name, box.value);
    if (why.value) box.value = name;
  };
  return html`
    <li class="saved-row">
      <div class="saved-words">
        <input
          class="saved-rename"
          aria-label=${`Name of the view ${name}`}
          maxlength=${LONGEST_VIEW_NAME}
          autocomplete="off"
          spellcheck=${false}
          defaultValue=${name}
          onChange=${onChange}
        />
        <a class="saved-holds" href=${each.path + each.search}>
          <bdi>${holdsOf(each)}</bdi>
        </a>
        ${why.value && html`
          <p class="saved-trouble" role="alert">
            ${why}
          </p>
        `}
      </div>
      <button class="saved-act" disabled=${first} aria-label=${`Move ${name} up`} onClick=${() => moveView(name, -1)}>
        <${Icon} name="arrow-up" />
      </button>
      <button class="saved-act" disabled=${last} aria-label=${`Move ${name} down`} onClick=${() => moveView(name, 1)}>
        <${Icon} name="arrow-down" />
      </button>
      <button class="saved-act" aria-label=${`Delete ${name}`} onClick=${() => deleteView(name)}>
        <${Icon} name="trash-2" />
      </button>
    </li>
  `;
}
