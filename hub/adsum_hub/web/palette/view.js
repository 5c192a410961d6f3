// @ts-check
/** The command palette: one box that finds sessions, views, filters, commands, and sessions that are over. */
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "../vendor/preact-hooks.js";
import { computed, signal } from "../vendor/signals-core.js";
import { askHub, fetchMe, listIn, me } from "../core/api.js";
import { overlay } from "../core/navigation.js";
import { found, prepare, sessionOption } from "./state.js";
import { html, Icon } from "../ui/html.js";

/** @import { Family, Option } from "./state.js" */

/** Somebody types: as long as the next letter may come. */
const PAUSE_MS = 250;
/** One letter is in every title. */
const SHORTEST = 2;
const MOST_OVER = 8;

/** @typedef {ReturnType<typeof makeSearch>} Search */

/** What is typed, what it finds, which of it is chosen. */
function makeSearch() {
  const sought = signal(overlay.peek()?.typed ?? "");
  const over = signal(
    /** @type {{phase: "none" | "asking" | "shown" | "failed", options: Option[], why?: string}} */ ({
      phase: "none",
      options: [],
    }),
  );
  const live = computed(() => found(sought.value));
  const families = computed(() => {
    const here = new Set(live.value.flatMap(({ options }) => options.map(({ key }) => key)));
    const options = over.value.options.filter(({ key }) => !here.has(key));
    return /** @type {Family[]} */ (
      options.length > 0 ? [...live.value, { name: "History", options, score: 0 }] : live.value
    );
  });
  const options = computed(() => families.value.flatMap((family) => family.options));
  /** The key of the chosen one, so that what comes later changes nothing. */
  const chosen = signal("");
  const at = computed(() =>
    Math.max(
      0,
      options.value.findIndex(({ key }) => key === chosen.value),
    ),
  );
  return { sought, over, families, options, chosen, at, said: signal("") };
}

/** Asks the hub for those that are over. @param {Search} search */
function watchOver({ sought, over }) {
  /** @type {AbortController | undefined} */
  let asking;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const ask = async (/** @type {string} */ words) => {
    const stopped = (asking = new AbortController()).signal;
    const { body, why } = await askHub(
      `/api/v1/history?q=${encodeURIComponent(words)}&limit=${MOST_OVER}&offset=0`,
      stopped,
    );
    if (stopped.aborted) return;
    const sessions = listIn(body, "sessions");
    over.value = sessions
      ? { phase: "shown", options: sessions.map((session) => sessionOption(session, "over")) }
      : { phase: "failed", options: [], why: why ?? "The hub's answer was not a list." };
  };
  const end = sought.subscribe((value) => {
    const words = value.trim();
    clearTimeout(timer);
    asking?.abort();
    if (words.length < SHORTEST) return void (over.value = { phase: "none", options: [] });
    over.value = { ...over.peek(), phase: "asking" };
    timer = setTimeout(() => ask(words), PAUSE_MS);
  });
  return () => {
    end();
    clearTimeout(timer);
    asking?.abort();
  };
}

/** @param {{onClose: () => void}} props */
export function View({ onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const search = useMemo(makeSearch, []);
  const list = useId();
  useLayoutEffect(() => {
    const here = /** @type {HTMLDialogElement} */ (dialog.current);
    here.showModal();
    return () => here.close();
  }, []);
  useEffect(() => watchOver(search), []);
  useEffect(() => {
    prepare();
    if (!me.peek()) fetchMe();
  }, []);
  const close = () => dialog.current?.close();
  /** @param {Option} option */
  const run = (option) => act(option, search, close);
  /** @param {KeyboardEvent} press */
  const onKeyDown = (press) => {
    if (press.isComposing) return;
    if (press.key === "Escape") return (press.preventDefault(), close());
    onListKey(press, search, run);
  };
  return html`
    <dialog
      ref=${dialog}
      class="palette"
      aria-label="Command palette"
      onClose=${onClose}
      onKeyDown=${onKeyDown}
      onClick=${(/** @type {MouseEvent} */ click) => click.target === dialog.current && close()}
    >
      <div class="palette-inner">
        <${Box} search=${search} list=${list} onClose=${close} />
        <${Found} search=${search} list=${list} run=${run} />
        <p class="palette-foot" aria-hidden="true">
          <span>
            <kbd>↑</kbd> <kbd>↓</kbd> choose
          </span>
          <span>
            <kbd>Enter</kbd> open
          </span>
          <span>
            <kbd>Esc</kbd> close
          </span>
        </p>
      </div>
    </dialog>
  `;
}

/** @param {Option} option @param {Search} search @param {() => void} close */
async function act(option, { said }, close) {
  // Closed first, so that the focus is given back before the option takes it elsewhere.
  if (!option.does) close();
  try {
    await option.run();
    said.value = option.does ?? "";
  } catch (error) {
    said.value = `Failed: ${error instanceof Error ? error.message : "unknown error"}`;
  }
}

/** @param {KeyboardEvent} press @param {Search} search @param {(option: Option) => void} run */
function onListKey(press, { options, chosen, at }, run) {
  const all = options.value;
  const to = {
    ArrowDown: at.value + 1,
    ArrowUp: at.value - 1,
    PageDown: Math.min(at.value + 8, all.length - 1),
    PageUp: Math.max(at.value - 8, 0),
  }[press.key];
  if (press.key === "Enter" && !(press.target instanceof HTMLButtonElement)) {
    press.preventDefault();
    const option = all[at.value];
    if (option) run(option);
  }
  if (to === undefined || all.length === 0) return;
  press.preventDefault();
  chosen.value = /** @type {Option} */ (all.at(to % all.length)).key;
}

/** @param {{search: Search, list: string, onClose: () => void}} props */
function Box({ search, list, onClose }) {
  const { sought, options, chosen, at, said } = search;
  const any = options.value.length > 0;
  /** @param {InputEvent} input */
  const onInput = (input) => {
    sought.value = /** @type {HTMLInputElement} */ (input.target).value;
    chosen.value = "";
    said.value = "";
  };
  return html`
    <div class="palette-box">
      <${Icon} name="search" />
      <input
        autofocus
        type="text"
        role="combobox"
        aria-label="Find a session, a view or a command"
        aria-expanded=${any}
        aria-controls=${any ? list : undefined}
        aria-activedescendant=${any ? `${list}-${at.value}` : undefined}
        aria-autocomplete="list"
        placeholder="Session, view, filter or command"
        autocomplete="off"
        autocapitalize="off"
        spellcheck=${false}
        maxlength="200"
        enterkeyhint="go"
        value=${sought}
        onInput=${onInput}
      />
      <button class="palette-close" aria-label="Close" onClick=${onClose}>
        <${Icon} name="x" />
      </button>
    </div>
  `;
}

/** @param {{search: Search, list: string, run: (option: Option) => void}} props */
function Found({ search, list, run }) {
  const { families, options, over, sought, said, at } = search;
  const { phase, why } = over.value;
  useLayoutEffect(
    () =>
      document
        .getElementById(`${list}-${at.value}`)
        ?.scrollIntoView({ block: at.value === 0 ? "center" : "nearest" }),
    [at.value, sought.value],
  );
  let index = 0;
  return html`
    <div class="palette-found" tabindex="0" role="group" aria-label="What is found">
      ${options.value.length > 0 && html`
        <div id=${list} role="listbox" aria-label="Found">
          ${families.value.map((family) => html`
            <div key=${family.name} role="group" aria-label=${family.name}>
              <p class="palette-family" aria-hidden="true">
                ${family.name}
              </p>
              ${family.options.map((option) => html`
                <${Row}
                  key=${option.key}
                  option=${option}
                  id=${`${list}-${index}`}
                  chosen=${index++ === at.value}
                  run=${run}
                />
              `)}
            </div>
          `)}
        </div>
      `}
      ${options.value.length === 0 && phase !== "asking" && html`
        <p class="palette-none">
          Nothing found for “<bdi>${sought}</bdi>”.
        </p>
      `}
      ${phase === "failed" && html`
        <p class="palette-failed">
          <${Icon} name="triangle-alert" />
          Ended sessions could not be searched. ${why}
        </p>
      `}
      <p class="sr" role="status">
        ${said.value || (sought.value.trim() ? `${options.value.length} found` : "")}
      </p>
      ${said.value && html`
        <p class="palette-said" aria-hidden="true">
          ${said}
        </p>
      `}
    </div>
  `;
}

/** @param {{option: Option, id: string, chosen: boolean, run: (option: Option) => void}} props */
function Row({ option, id, chosen, run }) {
  const { icon, title, note, tag, tone, keys } = option;
  return html`
    <div
      id=${id}
      class="palette-row"
      role="option"
      aria-selected=${chosen}
      data-tone=${tone}
      onClick=${() => run(option)}
    >
      <${Icon} name=${icon} />
      <span class="palette-words">
        <bdi class="palette-title">${title}</bdi>
        ${note && html`${" "}<bdi class="palette-note">${note}</bdi>`}
      </span>
      ${tag && html`<span class="palette-tag">${tag}</span>`}
      ${keys && html`<kbd>${keys}</kbd>`}
    </div>
  `;
}
