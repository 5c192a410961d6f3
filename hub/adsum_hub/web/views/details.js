// @ts-check
/** All there is about one session, beside the list or, on a phone, over it. */
import { useEffect, useLayoutEffect, useMemo, useRef } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals.js";
import { followActivity } from "../activity.js";
import { closeSession, opened } from "../address.js";
import { plain } from "../asks.js";
import { exact, moment } from "../clock.js";
import { missingOf } from "../gaps.js";
import { linkState, stale, trouble } from "../link.js";
import { entryOf, hostOf, lastSeen } from "../roster.js";
import { isOver, toneOf } from "../states.js";
import { sourceWords } from "../witnesses.js";
import { Log } from "./activity.js";
import { Badge, Meta, titleOf } from "./card.js";
import { Tree } from "./children.js";
import { Age, Icon, html } from "./html.js";
import { Requests } from "./requests.js";
import { SessionWitnesses, Warnings } from "./witnesses.js";

/** @import { SessionView } from "../wire.js" */
/** @import { ComponentChildren } from "../vendor/preact.js" */

/** @param {{id: string}} props */
export function Details({ id }) {
  const sheet = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const view = useMemo(() => computed(() => entryOf(id)?.view.value), [id]);
  const session = view.value;
  // The browser focuses the heading, keeps the focus inside, closes at Esc and gives the focus back.
  useLayoutEffect(() => {
    const dialog = /** @type {HTMLDialogElement} */ (sheet.current);
    dialog.showModal();
    return () => {
      dialog.close();
      focusCard(id);
    };
  }, [id]);
  const onClose = () => opened.value === id && closeSession();
  /** @param {MouseEvent} click */
  const onClick = (click) => click.target === sheet.current && sheet.current?.close();
  return html`<dialog ref=${sheet} class="sheet" aria-labelledby="sheet-title" onClose=${onClose} onClick=${onClick}>
    <div class="sheet-inner" data-tone=${session && toneOf(session.state)}>
      <header class="sheet-head">
        <h2 id="sheet-title" tabindex="-1"><bdi>${session ? titleOf(session) : "No such session"}</bdi></h2>
        <button class="close" aria-label="Close" onClick=${() => sheet.current?.close()}><${Icon} name="x" /></button>
      </header>
      <${NotLive} />
      ${session ? html`<${Whole} session=${session} view=${view} />` : html`<${Left} id=${id} />`}
    </div>
  </dialog>`;
}

/** The card may have moved to another section, where the browser does not find it. @param {string} id */
function focusCard(id) {
  if (document.activeElement && document.activeElement !== document.body) return;
  const card = document.querySelector(`.card[data-id="${CSS.escape(id)}"] .open`);
  if (card instanceof HTMLElement) card.focus();
}

function NotLive() {
  if (!stale.value) return null;
  const { phase, since } = linkState.value;
  const at = phase === "live" && trouble.value ? trouble.value.since : since;
  return html`<p class="sheet-stale" role="alert"><${Icon} name="wifi-off" /><span><strong>Not live.</strong> This is how things stood at ${moment(at)}.</span></p>`;
}

/** @param {{id: string}} props */
function Left({ id }) {
  return html`<p class="quiet">There is no session <code>${plain(id)}</code> on the roll. It may have been delivered long ago and left, or the address is not quite right.</p>`;
}

/** @param {{session: SessionView, view: import("../vendor/signals.js").ReadonlySignal<SessionView | undefined>}} props */
function Whole({ session, view }) {
  const { state, requests = [], children = [] } = session;
  const followed = useMemo(() => followActivity(session.id, view), [session.id]);
  useEffect(() => followed.stop, [followed]);
  const running = children.filter((child) => child.finished_at == null).length;
  return html`<section class="sheet-state" aria-label="State">
      <div class="sheet-badge"><${Badge} session=${session} /><${Age} at=${state.since} /></div>
      <p class="because">${sourceWords(state.source, state.confidence)}, since <time datetime=${new Date(state.since).toISOString()}>${exact(state.since)}</time>.</p>
      ${session.reachability === "offline" && html`<p class="because"><${Icon} name="unplug" /> Its host is offline; this is what was last seen, <${Age} at=${lastSeen(session)} /> ago.</p>`}
      <${Said} session=${session} />
      <${Meta} session=${session} />
    </section>
    <${Warnings} session=${session} />
    ${session.incomplete && html`<div class="warning" role="note"><p><${Icon} name="triangle-alert" /><strong>Incomplete.</strong> ${missingOf(session, hostOf(session)?.gaps ?? [])} What is shown is the best that is known.</p></div>`}
    ${requests.length > 0 && html`<${Part} part="requests" title="Asks you" count=${requests.length}><${Requests} session=${session} /><//>`}
    ${children.length > 0 && html`<${Part} part="children" title="Children" count=${children.length} note=${`${running} running`}><${Tree} list=${children} over=${isOver(state)} /><//>`}
    <${Part} part="activity" title="Activity" note="the last 100, newest first">
      <${Log} activity=${followed.activity} family=${children} askNow=${followed.askNow} />
    <//>
    <${Part} part="witnesses" title="Witnesses"><${SessionWitnesses} session=${session} /><//>
    <${Part} part="about" title="About"><${About} session=${session} /><//>`;
}

/** @param {{part: string, title: string, count?: number, note?: string, children?: ComponentChildren}} props */
function Part({ part, title, count, note, children }) {
  return html`<section class="part" data-part=${part} aria-labelledby=${`part-${part}`}>
    <header class="part-head"><h3 id=${`part-${part}`}>${title}</h3>${count && html`<span class="part-count">${count.toLocaleString()}</span>`}${note && html`<span class="part-note">${note}</span>`}</header>
    ${children}
  </section>`;
}

/** Its own last words, where the state brings them along. @param {{session: SessionView}} props */
function Said({ session: { state } }) {
  const said = state.context?.message ?? state.context?.last_message ?? state.context?.error;
  return typeof said === "string" && said.trim() ? html`<blockquote class="said" dir="auto">${plain(said)}</blockquote>` : null;
}

/** @param {{session: SessionView}} props */
function About({ session }) {
  /** @type {[string, string | number | null | undefined][]} */
  const facts = [
    ["session", session.id],
    ["agent", session.version ? `${session.agent} ${session.version}` : session.agent],
    ["directory", session.cwd],
    ["model", session.model],
    ["mode", session.mode],
    ["process", session.pid],
    ["started", session.started_at ? exact(session.started_at) : null],
    ["last change", exact(session.updated_at)],
  ];
  return html`<dl class="facts">${facts.filter(([, value]) => value != null && value !== "").map(
    ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd><bdi>${plain(value)}</bdi></dd></div>`,
  )}</dl>`;
}
