// @ts-check
/** The mark of what is unread: a dot before the title; gone once it was before the reader's eyes for a moment. */
import { useEffect, useMemo, useRef } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals.js";
import { isSeen, noticed, unreadIn } from "../seen.js";
import { html } from "./html.js";

/** @import { Entry } from "../roster.js" */
/** @import { Group } from "../wire.js" */

/** So long it is to be in sight of a reader who is there. */
const LOOK_MS = 1500;
const STEP_MS = 250;

/** In sight: since when somebody looks, by this browser's steady clock. @type {Map<Element, number>} */
const inSight = new Map();
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;
const watcher = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    if (isIntersecting) inSight.set(target, performance.now());
    else inSight.delete(target);
  }
  keepTime();
});

function keepTime() {
  if (inSight.size > 0) timer ??= setInterval(look, STEP_MS);
  else timer = void clearInterval(timer);
}

function look() {
  const at = performance.now();
  // Whoever is elsewhere, or reads what lies over the list, sees no mark.
  if (!document.hasFocus() || document.visibilityState === "hidden" || document.querySelector("dialog[open]")) {
    for (const mark of inSight.keys()) inSight.set(mark, at);
    return;
  }
  const read = [...inSight].filter(([, since]) => at - since >= LOOK_MS).map(([mark]) => mark);
  noticed(read.map((mark) => /** @type {HTMLElement} */ (mark).dataset.of ?? ""));
  for (const mark of read) inSight.delete(mark);
  keepTime();
}

/** @param {{entry: Pick<Entry, "id" | "view">}} props */
export function NewMark({ entry }) {
  const unseen = useMemo(() => computed(() => !isSeen(entry.view.value)), [entry]);
  return unseen.value ? html`<${Dot} id=${entry.id} />` : null;
}

/** @param {{id: string}} props */
function Dot({ id }) {
  const dot = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const mark = /** @type {HTMLElement} */ (dot.current);
    watcher.observe(mark);
    return () => {
      watcher.unobserve(mark);
      inSight.delete(mark);
      keepTime();
    };
  }, [id]);
  return html`<span ref=${dot} class="new-mark" data-of=${id}><span class="sr">New: </span></span>`;
}

/** On a phone's tab. @param {{group: Group}} props */
export function TabMark({ group }) {
  const count = unreadIn[group].value;
  return count > 0 && html`<span class="new-mark tab-new"><span class="sr">${count.toLocaleString()} new, </span></span>`;
}
