// @ts-check
/** Why a session is believed to stand as it does, what is wrong with who tells of it, and what a human is to do. */
import { plain } from "../asks.js";
import { exact } from "../clock.js";
import { hostOf, lastSeen } from "../roster.js";
import { isOver, remedyOf } from "../states.js";
import { nameOf, problemOf, whoTold } from "../witnesses.js";
import { Meta } from "./card.js";
import { Command, Copy } from "./copy.js";
import { Age, Icon, html } from "./html.js";
import { Part } from "./part.js";
import { Said } from "./words.js";

/** @import { SessionView } from "../wire.js" */

/** @param {number} confidence 0..1 */
function sureness(confidence) {
  if (confidence >= 0.9) return "sure";
  if (confidence >= 0.75) return "fairly sure";
  if (confidence >= 0.5) return "likely";
  return confidence > 0 ? "a guess" : "not known";
}

/** @param {{session: SessionView}} props */
export function Why({ session }) {
  const { source, confidence, since } = session.state;
  return html`<section class="sheet-state" aria-label="State">
    <p class="because"><b>Why:</b> ${whoTold(source)}, ${sureness(confidence)} (${Math.round(confidence * 100)} %), since <time datetime=${new Date(since).toISOString()}>${exact(since)}</time>.</p>
    <${Others} session=${session} />
    ${session.reachability === "offline" && html`<p class="because"><${Icon} name="unplug" /> Its host is offline; this is what was last seen, <${Age} at=${lastSeen(session)} /> ago.</p>`}
    ${session.ended_at != null && html`<p class="because"><${Icon} name="history" /> It is over since ${exact(session.ended_at)}. What is kept of it is shown.</p>`}
    <${Said} session=${session} />
    <${Meta} session=${session} />
  </section>`;
}

/** Whoever was heard since it stands like that has said nothing else. @param {{session: SessionView}} props */
function Others({ session: { witnesses = [], state } }) {
  const others = witnesses.filter(({ name }) => name !== state.source);
  const agree = others.filter(({ heard_at }) => heard_at >= state.since).map(({ name }) => nameOf(name));
  const quiet = others.filter(({ heard_at }) => heard_at < state.since).map(({ name }) => nameOf(name));
  if (others.length === 0) return null;
  return html`<p class="because">${agree.length > 0 && `Heard since, and nothing else said: ${agree.join(", ")}.`} ${quiet.length > 0 && `Not heard since: ${quiet.join(", ")}.`}</p>`;
}

/** What is wrong, at length, with the next step. @param {{session: SessionView}} props */
export function Warnings({ session }) {
  return (session.witnesses ?? []).map((witness) => {
    const problem = problemOf(witness);
    return problem && html`<div class="warning" key=${witness.name} role="note">
      <p><${Icon} name="triangle-alert" /><strong>${problem.label}.</strong> ${problem.text}</p>
      <p>What to run on <b>${plain(session.host)}</b>:</p>
      <div class="commands">${problem.commands.map((command) => html`<${Command} key=${command} text=${command} />`)}</div>
    </div>`;
  });
}

/** @param {{session: SessionView}} props */
export function ToDo({ session }) {
  const { state, host, cwd, reachability } = session;
  const over = isOver(state);
  const resume = over ? resumeOf(session) : undefined;
  const words = over
    ? resume ? "It is over. To go on with it, run this on its machine:" : "It is over."
    : state.group === "needs_you" ? `${remedyOf(state)}.` : state.group === "autonomous" ? "Nothing: it is at work." : "Nothing is asked of you. What it has done is there:";
  const away = reachability === "offline" && !over && `Its machine is out of reach${hostOf(session) ? "" : " and has left the roll"}; what you answer there shows once it is back.`;
  return html`<${Part} part="todo" title="What to do">
    <p>${words}${away && ` ${away}`}</p>
    ${resume && html`<${Command} text=${resume} />`}
    <dl class="facts places">
      <div><dt>host</dt><dd><bdi>${plain(host)}</bdi><${Copy} text=${plain(host)} what="the host's name" /></dd></div>
      ${cwd && html`<div><dt>directory</dt><dd><bdi class="raw">${plain(cwd)}</bdi><${Copy} text=${plain(cwd)} what="the directory" /></dd></div>`}
    </dl>
  <//>`;
}

/**
 * The command that takes a session up again; nothing where it would not be safe to paste: a path is what
 * an agent's machine says it is.
 * @param {SessionView} session
 */
export function resumeOf({ agent, session_id, cwd }) {
  if (agent !== "claude_code" || !/^[\w-]{1,100}$/.test(session_id) || (cwd && plain(cwd) !== cwd) || cwd?.includes("\n")) return undefined;
  const resume = `claude --resume ${session_id}`;
  if (!cwd) return resume;
  const [home, path] = cwd.startsWith("~/") ? ["~/", cwd.slice(2)] : ["", cwd];
  return `cd ${home}${/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`} && ${resume}`;
}
