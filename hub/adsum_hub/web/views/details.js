// @ts-check
/** All there is about one session, beside the list or, on a phone, over it. */
import { useEffect, useMemo } from "../vendor/preact-hooks.js";
import { computed, useSignal } from "../vendor/signals.js";
import { followActivity } from "../activity.js";
import { closeSession, openSession, opened } from "../address.js";
import { plain } from "../asks.js";
import { exact, moment } from "../clock.js";
import { missingOf } from "../gaps.js";
import { linkState, stale, trouble } from "../link.js";
import { fetchSession } from "../past.js";
import { entryOf, hostOf, lastSeen } from "../roster.js";
import { isOver, toneOf } from "../states.js";
import { sourceWords } from "../witnesses.js";
import { Log } from "./activity.js";
import { Badge, Meta, titleOf } from "./card.js";
import { Tree } from "./children.js";
import { Age, Ghosts, Icon, html } from "./html.js";
import { Requests } from "./requests.js";
import { Sheet } from "./sheet.js";
import { UsageFacts } from "./spent.js";
import { SessionWitnesses, Warnings } from "./witnesses.js";

/** @import { Past } from "../past.js" */
/** @import { SessionView } from "../wire.js" */
/** @import { ComponentChildren } from "../vendor/preact.js" */

/** @param {{id: string}} props */
export function Details({ id }) {
  const live = useMemo(() => computed(() => entryOf(id)?.view.value), [id]);
  const { past, askAgain } = usePast(id, live.value === undefined);
  const view = useMemo(() => computed(() => live.value ?? past.value.session), [live, past]);
  const session = view.value;
  const title = session ? titleOf(session) : { loading: "One moment", failed: "No answer", left: "No such session", shown: "" }[past.value.phase];
  return html`<${Sheet} name="sheet" title=${title} tone=${session && toneOf(session.state)} onClose=${() => opened.value === id && closeSession()} onGone=${() => focusCard(id)}>
    <${NotLive} />
    ${session ? html`<${Whole} session=${session} view=${view} />` : html`<${Elsewhere} id=${id} past=${past.value} askAgain=${askAgain} />`}
  <//>`;
}

/** One that is not on the roll, as the hub still knows it. @param {string} id @param {boolean} wanted */
function usePast(id, wanted) {
  const past = useSignal(/** @type {Past} */ ({ phase: "loading" }));
  const tries = useSignal(0);
  useEffect(() => {
    if (!wanted) return;
    const stopped = new AbortController();
    past.value = { phase: "loading" };
    fetchSession(id, stopped.signal).then((answer) => {
      if (!stopped.signal.aborted) past.value = answer;
    });
    return () => stopped.abort();
  }, [id, wanted, tries.value]);
  return { past, askAgain: () => (tries.value += 1) };
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

/** @param {{id: string, past: Past, askAgain: () => void}} props */
function Elsewhere({ id, past: { phase, why }, askAgain }) {
  if (phase === "loading") return html`<${Ghosts} words="Looking for it among those that are over" />`;
  if (phase === "failed") return html`<p class="log-failed" role="alert"><${Icon} name="triangle-alert" /><span>${why}</span><button class="button" onClick=${askAgain}><${Icon} name="refresh-cw" />Try again</button></p>`;
  return html`<p class="quiet">There is no session <code>${plain(id)}</code> on the roll, nor among those that are over. It may have ended long ago and left, or the address is not quite right.</p>`;
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
    <${Words} session=${session} />
    ${children.length > 0 && html`<${Part} part="children" title="Children" count=${children.length} note=${`${running} running`}><${Tree} list=${children} over=${isOver(state)} /><//>`}
    <${Part} part="activity" title="Activity" note="the last 100, newest first">
      <${Log} activity=${followed.activity} family=${children} over=${isOver(state)} askNow=${followed.askNow} />
    <//>
    ${(session.usage || session.context) && html`<${Part} part="usage" title="Usage"><${UsageFacts} session=${session} /><//>`}
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

/** Its own last words, where the state brings them along. @param {SessionView} session */
function saidBy({ state: { context } }) {
  const said = context?.message ?? context?.last_message ?? context?.error;
  return typeof said === "string" ? said.trim() : "";
}

/** @param {{session: SessionView}} props */
function Said({ session }) {
  const said = saidBy(session);
  return said && html`<blockquote class="said" dir="auto">${plain(said)}</blockquote>`;
}

/** What was said last, by either; not again what its state says already. @param {{session: SessionView}} props */
function Words({ session }) {
  const { last_prompt, last_answer } = session;
  const answer = last_answer?.trim() === saidBy(session) ? "" : last_answer?.trim();
  if (!last_prompt?.trim() && !answer) return null;
  return html`<${Part} part="words" title="Said last">
    ${last_prompt?.trim() && html`<h4 class="said-by">You</h4><blockquote class="said" dir="auto">${plain(last_prompt.trim())}</blockquote>`}
    ${answer && html`<h4 class="said-by">Agent</h4><blockquote class="said" dir="auto">${plain(answer)}</blockquote>`}
  <//>`;
}

/** @param {{session: SessionView}} props */
function About({ session }) {
  const time = (/** @type {number | null | undefined} */ at) => at && exact(at);
  const text = (/** @type {string | number | null | undefined} */ value) => value != null && value !== "" && html`<bdi>${plain(value)}</bdi>`;
  /** @type {[string, ComponentChildren][]} */
  const facts = [
    ["session", text(session.id)],
    ["agent", text(session.version ? `${session.agent} ${session.version}` : session.agent)],
    ["directory", text(session.cwd)],
    ["worktree", text(session.worktree)],
    ["branch", text(session.branch)],
    ["pull request", session.pr && html`<${PullRequest} address=${session.pr} />`],
    ["forked from", session.forked_from && html`<${Parent} session=${session} />`],
    ["model", text(session.model)],
    ["mode", text(session.mode)],
    ["process", text(session.pid)],
    ["started", time(session.started_at)],
    ["ended", time(session.ended_at)],
    ["last change", exact(session.updated_at)],
  ];
  return html`<dl class="facts">${facts.filter(([, value]) => value).map(
    ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`,
  )}</dl>`;
}

/** A link only if it leads to a web page; anything else an agent wrote there is shown as it is. @param {{address: string}} props */
function PullRequest({ address }) {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol)) return html`<bdi>${plain(address)}</bdi>`;
  return html`<a class="link" href=${url.href} target="_blank" rel="noopener noreferrer"><bdi>${plain(url.href)}</bdi><span class="sr">, opens in a new tab</span></a>`;
}

/** The session it was forked from lies on the same machine. @param {{session: SessionView}} props */
function Parent({ session: { host_id, forked_from } }) {
  return html`<button class="link" onClick=${() => openSession(`${host_id}:${forked_from}`)}><bdi>${plain(forked_from)}</bdi></button>`;
}
