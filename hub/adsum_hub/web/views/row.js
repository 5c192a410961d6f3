// @ts-check
/** A session in one line: what the rows of the list and those of the groupings share. */
import { openSession, pathOf } from "../address.js";
import { askOfSession, plain } from "../asks.js";
import { lastSeen } from "../roster.js";
import { titleOf } from "./card.js";
import { Age, Icon, html } from "./html.js";
import { NewMark } from "./mark.js";

/** @import { Entry } from "../roster.js" */
/** @import { SessionView } from "../wire.js" */

/** So much of what is asked fits a line. */
const ASK_LONGEST = 200;

/** The whole row opens the session, yet what it says can be selected and copied. @param {MouseEvent} click @param {string} id */
export function openFromRow(click, id) {
  if (/** @type {Element} */ (click.target).closest("a, button") || getSelection()?.toString()) return;
  if (click.ctrlKey || click.metaKey) window.open(pathOf(id), "_blank", "noopener");
  else openSession(id);
}

/** A link, so that a middle click or a copied address works. @param {{entry: Entry}} props */
export function Opener({ entry }) {
  const session = entry.view.value;
  /** @param {MouseEvent} click who selects some of it does not follow it */
  const onClick = (click) => void (getSelection()?.toString() && click.preventDefault());
  // A link that can be dragged cannot be selected from.
  return html`<a class="open" href=${pathOf(session.id)} aria-haspopup="dialog" draggable=${false} onClick=${onClick}><${NewMark} entry=${entry} /><bdi>${titleOf(session)}</bdi></a>`;
}

/** What it asks, in one line. @param {{session: SessionView}} props */
export function AskLine({ session }) {
  const ask = session.state.group === "needs_you" ? askOfSession(session) : undefined;
  if (!ask) return null;
  return html`<span class="row-ask" data-form=${ask.form}><bdi>${ask.text.slice(0, ASK_LONGEST).replace(/\s+/g, " ")}</bdi></span>`;
}

/** Since when it is as it is; of an offline host when it was last seen. @param {{session: SessionView}} props */
export function RowAge({ session }) {
  if (session.reachability !== "offline") return html`<${Age} at=${session.state.since} />`;
  return html`<span class="row-seen"><${Icon} name="unplug" /><span class="row-seen-words">last seen</span> <${Age} at=${lastSeen(session)} /><span class="sr"> ago</span></span>`;
}

/** @param {{session: SessionView}} props */
export function HostName({ session }) {
  return html`<bdi>${plain(session.host)}</bdi>${session.reachability === "late" && html`<span class="late" title="Its collector has not been heard for more than 10 s">late</span>`}`;
}

/** What the filter leaves is nothing. @param {{onClear: () => void}} props */
export function NoMatch({ onClear }) {
  return html`<div class="no-match"><${Icon} name="search" /><p>No session matches this filter.</p><button class="button" onClick=${onClear}><${Icon} name="x" />Clear filters</button></div>`;
}
