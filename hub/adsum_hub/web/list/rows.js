// @ts-check
/** What the rows of the list and of its groups share, and an order that does not change under the reader's hands. */
import { useEffect, useMemo, useRef } from "../vendor/preact-hooks.js";
import { effect, signal, untracked } from "../vendor/signals-core.js";
import { NewMark } from "../board/card.js";
import { plain } from "../core/format.js";
import { openSession } from "../core/navigation.js";
import { askOfSession } from "../core/requests.js";
import { lastSeen, otherAgent } from "../core/roster.js";
import { sessionPath } from "../core/routes.js";
import { titleOf } from "../core/states.js";
import { Age, Code, html, Icon } from "../ui/html.js";

/** @import { Entry } from "../core/roster.js" */
/** @import { SessionView } from "../wire.js" */

/** So much of what is asked fits a line. */
const ASK_LONGEST = 200;

/**
 * The whole row opens the session, yet what it says can be selected and copied.
 * @param {MouseEvent} click
 * @param {string} id
 */
export function openFromRow(click, id) {
  if (/** @type {Element} */ (click.target).closest("a, button") || getSelection()?.toString()) return;
  if (click.ctrlKey || click.metaKey) window.open(sessionPath(id), "_blank", "noopener");
  else openSession(id);
}

/** A link, so that a middle click or a copied address works. @param {{entry: Entry}} props */
export function RowLink({ entry }) {
  const session = entry.view.value;
  /** @param {MouseEvent} click who selects some of it does not follow it */
  const onClick = (click) => void (getSelection()?.toString() && click.preventDefault());
  // A link that can be dragged cannot be selected from.
  return html`
    <a class="open" href=${sessionPath(session.id)} aria-haspopup="dialog" draggable=${false} onClick=${onClick}>
      <${NewMark} entry=${entry} />
      <bdi>${[otherAgent(session), titleOf(session)].filter(Boolean).join(": ")}</bdi>
    </a>
  `;
}

/** What it asks, in one line. @param {{session: SessionView}} props */
export function AskLine({ session }) {
  const ask = session.state.group === "needs_you" ? askOfSession(session) : undefined;
  if (!ask) return null;
  const cut = ask.text.slice(0, ASK_LONGEST).replace(/[ \t\n]+/g, " ");
  return html`
    <span class="row-ask" data-form=${ask.form}>
      <bdi>${ask.code ? html`<${Code} text=${cut} />` : cut}</bdi>
    </span>
  `;
}

/** Since when it is as it is; of an offline host when it was last seen. @param {{session: SessionView}} props */
export function RowAge({ session }) {
  if (session.reachability !== "offline") return html`<${Age} at=${session.state.since} />`;
  return html`
    <span class="row-seen">
      <${Icon} name="unplug" />
      <span class="row-seen-words">last seen</span> <${Age} at=${lastSeen(session)} />
      <span class="sr"> ago</span>
    </span>
  `;
}

/** @param {{session: SessionView}} props */
export function HostName({ session }) {
  return html`
    <bdi>${plain(session.host)}</bdi>
    ${session.reachability === "late" && html`
      <span class="late" title="No heartbeat from its collector for more than 10 s">
        late
      </span>
    `}
  `;
}

/** What the filter leaves is nothing. @param {{onClear: () => void}} props */
export function NoMatch({ onClear }) {
  return html`
    <div class="no-match">
      <${Icon} name="search" />
      <p>No session matches this filter.</p>
      <button class="button" onClick=${onClear}>
        <${Icon} name="x" />
        Clear filters
      </button>
    </div>
  `;
}

/** At most so often is it made again. */
const BETWEEN_MS = 400;
/** So long after the reader's last move on it, it stands still: time to press what was aimed at. */
const HOLD_MS = 1000;
/** Values that no signal tells of are looked at so often. */
const LOOK_MS = 500;
const HANDS = ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"];

/**
 * What `make` gives. It is made again at once where the reader wants something else (`wanted` reads
 * those signals); where others have moved (`moved`) at most a few times a second, and never within a
 * second of the reader's pointer or keys on `place`.
 * @template T
 * @param {{make: () => T, same: (old: T, fresh: T) => boolean, wanted: () => unknown, moved: () => unknown}} how
 *   the same ones for as long as it is drawn
 */
export function useSteadyOrder({ make, same, wanted, moved }) {
  const place = useRef(/** @type {any} */ (null));
  const held = useMemo(() => signal(untracked(make)), []);
  useEffect(() => {
    let made = 0;
    let touched = -HOLD_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const again = () => {
      clearTimeout(timer);
      timer = undefined;
      made = performance.now();
      const fresh = untracked(make);
      if (!same(held.peek(), fresh)) held.value = fresh;
    };
    const soon = () => {
      if (timer !== undefined) return;
      const wait = Math.max(made + BETWEEN_MS, touched + HOLD_MS) - performance.now();
      if (wait <= 0) return again();
      timer = setTimeout(() => {
        timer = undefined;
        soon();
      }, wait);
    };
    const touch = () => void (touched = performance.now());
    for (const kind of HANDS) place.current?.addEventListener(kind, touch, { passive: true });
    const element = place.current;
    const ends = [
      effect(() => {
        wanted();
        again();
      }),
      effect(() => {
        moved();
        soon();
      }),
    ];
    const look = setInterval(() => document.visibilityState === "visible" && soon(), LOOK_MS);
    return () => {
      clearTimeout(timer);
      clearInterval(look);
      for (const end of ends) end();
      for (const kind of HANDS) element?.removeEventListener(kind, touch);
    };
  }, []);
  return { held, place };
}
