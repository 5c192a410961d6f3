// @ts-check
/** Every session as a row: dense, sortable, thousands of them, of which those in sight are drawn. */
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { Badge } from "../board/card.js";
import { clearFilters, filtering, filters } from "../core/filters.js";
import { costOf, counted, exactUsage, fullness, nearlyFull, plain, planOf, short, tokensOf } from "../core/format.js";
import { allShown, countHere, readMembership, sameItems } from "../core/roster.js";
import { isOver, modelName, toneOf } from "../core/states.js";
import { AskLine, HostName, NoMatch, openFromRow, RowAge, RowLink, useSteadyOrder } from "./rows.js";
import { COLUMNS, inOrder, press, sort, sortBy } from "./state.js";
import { Bar, html, Icon } from "../ui/html.js";

/** @import { AllShown, Entry } from "../core/roster.js" */
/** @import { Column } from "./state.js" */
/** @import { SessionView } from "../wire.js" */

/** Between those who are here and those of offline hosts. */
const DIVIDER = "divider";

const ORDER = {
  make: () => {
    const { here, absent } = allShown();
    return { here: inOrder(here, sort.value), absent: inOrder(absent, sort.value) };
  },
  same: (/** @type {AllShown} */ a, /** @type {AllShown} */ b) =>
    sameItems(a.here, b.here) && sameItems(a.absent, b.absent),
  wanted: () => [sort.value, filters.value],
  moved: readMembership,
};

export function View() {
  const { held, place } = useSteadyOrder(ORDER);
  const { here, absent } = held.value;
  const none = here.length + absent.length === 0;
  return html`
    <section class="view list" aria-labelledby="view-title">
      <header class="list-head">
        <h2 id="view-title" class="sr">
          Sessions
        </h2>
        <p class="list-count">${countWords(here.length, absent.length)}</p>
        ${!none && html`<${SortChoice} />`}
      </header>
      <div class="list-box" ref=${place}>
        ${none && filtering.value
          ? html`<${NoMatch} onClear=${clearFilters} />`
          : html`<${Table} here=${here} absent=${absent} />`}
      </div>
    </section>
  `;
}

/** @param {number} here @param {number} absent */
function countWords(here, absent) {
  const all = countHere();
  const count =
    filtering.value && here !== all
      ? `${here.toLocaleString()} of ${counted(all, "session")}`
      : counted(here, "session");
  return absent > 0 ? `${count}, and ${absent.toLocaleString()} on offline hosts, not counted` : count;
}

/** For where not every column has a head to press. */
function SortChoice() {
  const by = sort.value;
  /** @param {Event} change */
  const choose = (change) => {
    const column = COLUMNS.find(({ name }) => name === /** @type {HTMLSelectElement} */ (change.target).value);
    sortBy(column, Boolean(column?.down));
  };
  const way = by?.down ? "downwards" : "upwards";
  return html`
    <div class="list-sort">
      <label>
        <span>Sort by</span>
        <select onChange=${choose} value=${by?.column.name ?? ""}>
          <option value="">Attention</option>
          ${COLUMNS.map(({ name, title }) => html`
            <option key=${name} value=${name}>
              ${title}
            </option>
          `)}
        </select>
      </label>
      ${by && html`
        <button
          class="list-way"
          aria-label=${`Sorted ${way}; reverse`}
          onClick=${() => sortBy(by.column, !by.down)}
        >
          <${Icon} name=${by.down ? "arrow-down" : "arrow-up"} />
        </button>
      `}
    </div>
  `;
}

/** @param {AllShown} props */
function Table({ here, absent }) {
  const { start, ruler, row, edges } = useWindow();
  const focused = useSignal(/** @type {string | null} */ (null));
  const items = absent.length > 0 ? [...here, DIVIDER, ...absent] : here;
  const kept =
    focused.value === null ? -1 : items.findIndex((item) => typeof item !== "string" && item.id === focused.value);
  useFocusKept(row, focused.value, kept);
  /** @param {FocusEvent} focus */
  const onFocus = (focus) =>
    (focused.value = /** @type {Element} */ (focus.target).closest("[data-id]")?.getAttribute("data-id") ?? null);
  /** @param {Piece} piece */
  const drawn = (piece) => {
    if (!("index" in piece))
      return html`
        <tr
          key=${`gap ${piece.name}`}
          class="list-gap"
          aria-hidden="true"
          ref=${piece.name === 0 ? start : undefined}
        >
          <${Gap} height=${piece.gap * row.value} />
        </tr>
      `;
    const item = items[piece.index];
    if (typeof item === "string") {
      return html`<${Divider} key=${DIVIDER} index=${piece.index} count=${absent.length} />`;
    }
    return html`<${Row} key=${item.id} entry=${item} index=${piece.index} />`;
  };
  return html`
    <div class="list-ruler" ref=${ruler} aria-hidden="true"></div>
    <table
      class="list-table"
      role="table"
      data-by=${sort.value?.column.name}
      aria-labelledby="view-title"
      aria-rowcount=${items.length + 1}
    >
      <colgroup>
        ${COLUMNS.map(({ name }) => html`
          <col key=${name} data-col=${name} />
        `)}
      </colgroup>
      <thead role="rowgroup">
        <tr role="row" aria-rowindex="1">
          ${COLUMNS.map((column) => html`
            <${Head} key=${column.name} column=${column} />
          `)}
        </tr>
      </thead>
      <tbody role="rowgroup" onFocusIn=${onFocus} onFocusOut=${() => (focused.value = null)}>
        ${pieces(items.length, edges.value, kept).map(drawn)}
      </tbody>
    </table>
  `;
}

/**
 * A row with the focus keeps it, though drawing moves it among the others, and keeps its height on
 * the screen, though others come and go above it.
 * @param {{value: number}} row @param {string | null} id @param {number} kept its index, or -1
 */
function useFocusKept(row, id, kept) {
  const before = useRef({ id, kept });
  const active = document.activeElement;
  useLayoutEffect(() => {
    const inside = active instanceof HTMLElement && active.closest(".list-table [data-id]");
    if (inside && active.isConnected && document.activeElement !== active) active.focus({ preventScroll: true });
    const was = before.current;
    before.current = { id, kept };
    if (id !== was.id || kept < 0 || was.kept < 0 || kept === was.kept) return;
    scrollBy({ top: (kept - was.kept) * row.value, behavior: "instant" });
  });
}

/** Its height is set by script: no attribute of the markup may say a style. @param {{height: number}} props */
function Gap({ height }) {
  return html`<td style=${{ height: `${height}px` }}></td>`;
}

/** @param {{column: Column}} props */
function Head({ column }) {
  const by = sort.value?.column === column ? sort.value : undefined;
  const way = by && (by.down ? "descending" : "ascending");
  return html`
    <th role="columnheader" scope="col" data-col=${column.name} aria-sort=${way}>
      <button class="list-by" onClick=${() => press(column)}>
        ${column.title}
        ${by && html`<${Icon} name=${by.down ? "arrow-down" : "arrow-up"} />`}
      </button>
    </th>
  `;
}

/** @param {{index: number, count: number}} props */
function Divider({ index, count }) {
  return html`
    <tr class="list-divider" role="row" aria-rowindex=${index + 2}>
      <td role="cell">
        <${Icon} name="unplug" />
        On hosts that are offline<span>${counted(count, "session")}, as last seen, not counted</span>
      </td>
    </tr>
  `;
}

/** @param {{entry: Entry, index: number}} props */
function Row({ entry, index }) {
  const session = entry.view.value;
  const { state, project, branch, model, usage, plan } = session;
  const tokens = usage ? tokensOf(usage) : 0;
  return html`
    <tr
      class="list-row"
      role="row"
      aria-rowindex=${index + 2}
      data-id=${session.id}
      data-need=${state.group === "needs_you"}
      data-tone=${toneOf(state)}
      data-state=${state.state}
      data-absent=${session.reachability === "offline"}
      onClick=${(/** @type {MouseEvent} */ click) => openFromRow(click, session.id)}
    >
      <td role="cell" data-col="state">
        <${Badge} session=${session} />
      </td>
      <th role="rowheader" scope="row" data-col="title">
        <${RowLink} entry=${entry} />
        <${AskLine} session=${session} />
      </th>
      <td role="cell" data-col="project">
        ${project && html`<bdi>${plain(project)}</bdi>`}
      </td>
      <td role="cell" data-col="host">
        <${HostName} session=${session} />
      </td>
      <td role="cell" data-col="branch">
        ${branch && html`<bdi>${plain(branch)}</bdi>`}
      </td>
      <td role="cell" data-col="model" title=${model ? plain(model) : undefined}>
        ${model && modelName(plain(model))}
      </td>
      <td role="cell" data-col="age">
        <${RowAge} session=${session} />
      </td>
      <td role="cell" data-col="tokens" title=${usage ? exactUsage(usage) : undefined}>
        ${tokens > 0 && short(tokens)}
      </td>
      <td role="cell" data-col="cost" title=${usage ? exactUsage(usage) : undefined}>
        ${plan ? planOf(plan) : usage && costOf(usage)}
      </td>
      <td role="cell" data-col="context">
        <${Fullness} session=${session} />
      </td>
    </tr>
  `;
}

/** How full its context is, while it goes on. @param {{session: SessionView}} props */
function Fullness({ session: { context, state } }) {
  const percent = context ? fullness(context) : undefined;
  if (!context || percent === undefined || isOver(state) || state.state === "archived") return null;
  const near = nearlyFull(percent);
  return html`
    <span
      class="list-full"
      data-near=${near}
      title=${`Context: ${context.tokens.toLocaleString()} of ${context.size?.toLocaleString()} tokens`}
    >
      ${near && html`<${Icon} name="triangle-alert" />`}
      <${Bar} percent=${percent} />
      <span>${percent} %</span>
    </span>
  `;
}

/** Rows drawn beyond either edge, so that a turn of the wheel or the next key finds them there. */
const BEYOND = 12;
/** The edges move by so many rows at once: not every pixel scrolled draws again. */
const STEP = 8;
/** Until it has been measured. */
const ROW_PX = 40;

/**
 * start: an element whose top is that of the first row. ruler: one as high as a row; its height
 * follows density, zoom and width. Which rows to draw is `edges`.
 */
export function useWindow() {
  const start = useRef(/** @type {any} */ (null));
  const ruler = useRef(/** @type {any} */ (null));
  const row = useSignal(ROW_PX);
  const edges = useSignal({ first: 0, last: 40 });
  useLayoutEffect(() => {
    const box = /** @type {HTMLElement} */ (ruler.current.parentElement);
    const look = () => {
      if (!start.current) return;
      const { top, bottom } = box.getBoundingClientRect();
      const from = start.current.getBoundingClientRect().top;
      const first = Math.floor((Math.max(top, 0) - from) / row.peek() / STEP) * STEP - BEYOND;
      const last = Math.ceil((Math.min(bottom, innerHeight) - from) / row.peek() / STEP) * STEP + BEYOND;
      const held = edges.peek();
      if (first !== held.first || last !== held.last) edges.value = { first, last };
    };
    const measure = () => {
      row.value = ruler.current.getBoundingClientRect().height || ROW_PX;
      look();
    };
    const watch = new ResizeObserver(measure);
    watch.observe(ruler.current);
    watch.observe(box);
    // The page scrolls, or something in it; a scroll does not bubble.
    addEventListener("scroll", look, { capture: true, passive: true });
    addEventListener("resize", look);
    measure();
    return () => {
      watch.disconnect();
      removeEventListener("scroll", look, { capture: true });
      removeEventListener("resize", look);
    };
  }, []);
  return { start, ruler, row, edges };
}

/** @typedef {{gap: number, name: number} | {index: number}} Piece */

/**
 * What stands from top to bottom: rows, and gaps of so many rows that are not drawn. The row with the
 * focus is drawn wherever it is, or scrolling would lose the reader's place; so are its neighbours,
 * where the next key leads.
 * @param {number} count @param {{first: number, last: number}} edges @param {number} kept -1: none
 * @returns {Piece[]}
 */
export function pieces(count, edges, kept) {
  const last = Math.max(0, Math.min(count, edges.last));
  const first = Math.max(0, Math.min(edges.first, last - 1));
  const ranges = [[first, last]];
  if (kept >= 0) ranges.push([Math.max(0, kept - 1), Math.min(count, kept + 2)]);
  ranges.sort((a, b) => a[0] - b[0]);
  /** @type {Piece[]} */
  const all = [];
  let at = 0;
  ranges.forEach(([from, to], name) => {
    const start = Math.max(at, from);
    all.push({ gap: start - at, name });
    for (at = start; at < to; at++) all.push({ index: at });
  });
  all.push({ gap: Math.max(0, count - at), name: ranges.length });
  return all;
}
