// @ts-check
/** Saved views: saving the one that is shown, going to one, keeping them in order. */
import { useId } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { view } from "../address.js";
import { filtering, filters, filtersIn, searchOf } from "../filters.js";
import { sort, sortIn, withSort } from "../list_order.js";
import { LONGEST_NAME, deleteView, moveView, openView, renameView, saveView, saved, savedTrouble } from "../saved.js";
import { Icon, html } from "./html.js";
import { Lazy } from "./lazy.js";
import { inWords } from "./naming.js";
import { closeAround } from "./popover.js";

/** @import { SavedView } from "../saved.js" */

/** By its path. @type {Record<string, string>} */
const WAY = { "/": "Board", "/list": "List", "/by/host": "By host", "/by/project": "By project" };
const PATH = { list: "/list", host: "/by/host", project: "/by/project" };

/** What a view holds, in words. @param {SavedView} saved */
export function holdsOf({ path, search }) {
  const by = sortIn(search);
  const order = by && `by ${by.column.title.toLowerCase()} ${by.down ? "downwards" : "upwards"}`;
  return [WAY[path], inWords(filtersIn(search)), order].filter(Boolean).join(" · ");
}

function SavedTrouble() {
  return savedTrouble.value && html`<p class="saved-trouble" role="status"><${Icon} name="triangle-alert" /><span>${savedTrouble}</span></p>`;
}

/** The list to go by, and the form for what is shown now. @param {{onGo?: () => void}} props */
export function SavedMenu({ onGo }) {
  return html`<div class="saved-menu">
    <${SavedTrouble} />
    ${saved.value.length > 0 && html`<ul class="saved-list">${saved.value.map((each) => html`<li key=${each.name}><${Way} saved=${each} onGo=${onGo} /></li>`)}</ul>`}
    <${SaveForm} onSaved=${onGo} />
  </div>`;
}

/** @param {{saved: SavedView, onGo?: (() => void) | undefined}} props */
function Way({ saved: each, onGo }) {
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    if (click.button !== 0 || click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    click.preventDefault();
    closeAround(click);
    onGo?.();
    openView(each);
  };
  return html`<a class="saved-way" href=${each.path + each.search} onClick=${onClick}><${Icon} name="star" /><span class="saved-words"><bdi class="saved-name">${each.name}</bdi><bdi class="saved-holds">${holdsOf(each)}</bdi></span></a>`;
}

/** @param {{onSaved?: (() => void) | undefined}} props */
function SaveForm({ onSaved }) {
  const path = PATH[/** @type {keyof typeof PATH} */ (view.value)] ?? "/";
  const usual = inWords(filters.value) || WAY[path];
  const name = useSignal(usual.slice(0, LONGEST_NAME));
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
  return html`<form class="save" onSubmit=${onSubmit}>
    <label for=${id}>Save ${filtering.value ? "these filters" : "this view"} as</label>
    <div class="save-row">
      <input id=${id} data-first=${filtering.value ? "" : undefined} maxlength=${LONGEST_NAME} autocomplete="off" spellcheck=${false} value=${name} aria-describedby=${`${id}-note`} onFocus=${(/** @type {FocusEvent} */ e) => /** @type {HTMLInputElement} */ (e.target).select()} onInput=${(/** @type {InputEvent} */ e) => (name.value = /** @type {HTMLInputElement} */ (e.target).value)} />
      <button class="button">${replaces ? "Replace" : "Save"}</button>
    </div>
    ${why.value && html`<p class="saved-trouble" role="alert">${why}</p>`}
    <p class="save-note" id=${`${id}-note`}>Kept in this browser only.</p>
  </form>`;
}

/** For the settings: rename, delete, order. Its styles come with those of the facets. */
export function SavedViews() {
  return html`<${Lazy} name="facets" part="SavedEditor" quiet />`;
}

export function SavedEditor() {
  const last = saved.value.length - 1;
  return html`<div class="saved-views">
    <${SavedTrouble} />
    ${last < 0 && html`<p class="quiet">None yet. Narrow the board or the list by its filters, then press Save view.</p>`}
    ${last >= 0 && html`<ol class="saved-edit">${saved.value.map((each, i) => html`<${Editable} key=${each.name} saved=${each} first=${i === 0} last=${i === last} />`)}</ol>`}
    <p class="save-note">Saved views are kept in this browser only.</p>
  </div>`;
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
  return html`<li class="saved-row">
    <div class="saved-words">
      <input class="saved-rename" aria-label=${`Name of the view ${name}`} maxlength=${LONGEST_NAME} autocomplete="off" spellcheck=${false} defaultValue=${name} onChange=${onChange} />
      <a class="saved-holds" href=${each.path + each.search}><bdi>${holdsOf(each)}</bdi></a>
      ${why.value && html`<p class="saved-trouble" role="alert">${why}</p>`}
    </div>
    <button class="saved-act" disabled=${first} aria-label=${`Move ${name} up`} onClick=${() => moveView(name, -1)}><${Icon} name="arrow-up" /></button>
    <button class="saved-act" disabled=${last} aria-label=${`Move ${name} down`} onClick=${() => moveView(name, 1)}><${Icon} name="arrow-down" /></button>
    <button class="saved-act" aria-label=${`Delete ${name}`} onClick=${() => deleteView(name)}><${Icon} name="trash-2" /></button>
  </li>`;
}
