// @ts-check
/** The facts of a session: where it runs, on what, and what it came from. */
import { openSession } from "../address.js";
import { plain } from "../asks.js";
import { duration, exact } from "../clock.js";
import { Copy } from "./copy.js";
import { html } from "./html.js";

/** @import { SessionView } from "../wire.js" */
/** @import { ComponentChildren } from "../vendor/preact.js" */

/** @param {{session: SessionView}} props */
export function About({ session }) {
  const { started_at: from, ended_at: to } = session;
  const time = (/** @type {number | null | undefined} */ at) => at && exact(at);
  const text = (/** @type {string | number | null | undefined} */ value) => value != null && value !== "" && html`<bdi>${plain(value)}</bdi>`;
  /** @type {[string, ComponentChildren][]} */
  const facts = [
    ["session", html`<bdi>${plain(session.id)}</bdi><${Copy} text=${plain(session.session_id)} what="the session's id" />`],
    ["agent", text(session.version ? `${session.agent} ${session.version}` : session.agent)],
    ["directory", text(session.cwd)],
    ["worktree", text(session.worktree)],
    ["branch", text(session.branch)],
    ["pull request", session.pr && html`<${PullRequest} address=${session.pr} />`],
    ["forked from", session.forked_from && html`<${Parent} session=${session} />`],
    ["model", text(session.model)],
    ["mode", text(session.mode)],
    ["process", text(session.pid)],
    ["started", time(from)],
    ["ended", time(to)],
    ["duration", from && to && to > from ? duration(to - from) : undefined],
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
