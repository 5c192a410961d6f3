// @ts-check
/** One session as a card. */
import { useMemo } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals.js";
import { openSession, opened } from "../address.js";
import { askOfSession, plain } from "../asks.js";
import { missingOf } from "../gaps.js";
import { hostOf, lastSeen } from "../roster.js";
import { iconOf, labelOf, remedyOf, toneOf } from "../states.js";
import { problemOf, sourceWords } from "../witnesses.js";
import { Branches, finishedCount } from "./children.js";
import { Hint } from "./hint.js";
import { Age, Icon, counted, html } from "./html.js";
import { NewMark } from "./mark.js";
import { Gauge, Spent } from "./spent.js";

/** @import { Entry } from "../roster.js" */
/** @import { Ask } from "../asks.js" */
/** @import { SessionView } from "../wire.js" */

/** For so long a card that has just come draws the eye. */
const NEW_MS = 1500;

/**
 * `first` is why this card is the one to attend to first; only that card has it.
 * @param {{entry: Entry, first?: string}} props
 */
export function Card({ entry, first }) {
  const session = entry.view.value;
  const { state } = session;
  const absent = session.reachability === "offline";
  const classes = ["card", first && "card-first", absent && "card-absent", Date.now() - entry.moved < NEW_MS && "card-new"].filter(Boolean).join(" ");
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    // The whole card is as good as its button, yet what it says can still be selected and copied.
    if (/** @type {Element} */ (click.target).closest("button, [popover]") || getSelection()?.toString()) return;
    openSession(session.id);
  };
  return html`<li class=${classes} data-id=${session.id} data-tone=${toneOf(state)} data-state=${state.state} onClick=${onClick}>
    ${first && html`<p class="why"><strong>Attend to this first:</strong> ${first}</p>`}
    <article>
      <div class="card-top">
        <${Badge} session=${session} />
        ${absent
          ? html`<span class="seen"><${Icon} name="unplug" /><span>last seen <${Age} at=${lastSeen(session)} /> ago</span></span>`
          : html`<${Age} at=${state.since} />`}
      </div>
      <h3 class="title">
        <${NewMark} entry=${entry} /><${Opener} session=${session} />
      </h3>
      ${state.group === "needs_you" && html`<${AskBlock} ask=${askOfSession(session)} />`}
      <${Meta} session=${session} />
      <${Branches} list=${session.children ?? []} />
      <${Problems} session=${session} />
      ${first && html`<p class="where"><${Icon} name="terminal" /><span>${remedyOf(state)} on <b>${plain(session.host)}</b>${session.cwd && html`, in <code>${plain(session.cwd)}</code>`}</span></p>`}
    </article>
  </li>`;
}

/** @param {Pick<SessionView, "title" | "project" | "session_id">} session */
export function titleOf(session) {
  return plain(session.title || session.project || `Session ${session.session_id.slice(0, 8)}`);
}

/** Opens the details. @param {{session: SessionView}} props */
function Opener({ session: { id, ...session } }) {
  // A signal as attribute: opening one card's details draws no other card again.
  const expanded = useMemo(() => computed(() => opened.value === id), [id]);
  return html`<button class="open" aria-haspopup="dialog" aria-expanded=${expanded} onClick=${() => openSession(id)}><bdi>${titleOf(session)}</bdi></button>`;
}

/** What a card says of its witnesses: only what is wrong. @param {{session: SessionView}} props */
function Problems({ session }) {
  const problems = (session.witnesses ?? []).map(problemOf).filter((problem) => problem !== undefined);
  if (problems.length === 0) return null;
  return html`<ul class="problems" aria-label="Witnesses">${problems.map(
    ({ label, text, commands }) => html`<li key=${label}><${Hint} label=${label} onPress=${() => openSession(session.id)}>
      ${text} <span class="hint-next">Next: ${commands.map((command, i) => html`${i > 0 && " or "}<code key=${command}>${command}</code>`)} on <b>${plain(session.host)}</b>.</span>
    <//></li>`,
  )}</ul>`;
}

/** @param {{session: SessionView}} props */
export function Badge({ session: { state, display } }) {
  const label = plain(labelOf(state));
  const why = `${state.state}${display?.label ? `, ${label}` : ""}. ${sourceWords(state.source, state.confidence)}`;
  return html`<span class="badge" title=${why}><${Icon} name=${iconOf(state)} /><bdi>${display?.label ? plain(display.label) : label}</bdi></span>`;
}

/** What domains say beside the label. @param {{session: SessionView}} props */
function Chips({ session }) {
  return html`${(session.display?.chips ?? []).map(
    ({ text, tone = "plain" }) => html`<li key=${text} class="chip" data-tone=${tone}><bdi>${plain(text)}</bdi></li>`,
  )}`;
}

/** @param {{ask: Ask | undefined}} props */
function AskBlock({ ask }) {
  if (!ask) return null;
  return html`<div class="ask" data-form=${ask.form}>
    ${ask.note && html`<p class="ask-note" dir="auto">${ask.note}</p>`}
    <div class="ask-box"><p class="ask-text" dir="auto">${ask.text}</p></div>
    ${ask.options && ask.options.length > 0 && html`<ol class="options">${ask.options.map((option, i) => html`<li key=${i} dir="auto">${option}</li>`)}</ol>`}
    ${ask.more && html`<p class="ask-more">${ask.more}</p>`}
  </div>`;
}

/** @param {{session: SessionView}} props */
export function Meta({ session }) {
  const { project, host, branch, model, reachability, incomplete, usage, children = [] } = session;
  const finished = finishedCount(children);
  return html`<ul class="meta">
    <${Chips} session=${session} />
    ${project && session.title && html`<li><${Icon} name="folder" /><bdi>${plain(project)}</bdi></li>`}
    <li><${Icon} name="server" /><bdi>${plain(host)}</bdi>${reachability === "late" && html`<span class="late" title="Its collector has not been heard for more than 10 s">late</span>`}</li>
    ${branch && html`<li><${Icon} name="git-branch" /><bdi>${plain(branch)}</bdi></li>`}
    ${model && html`<li title=${plain(model)}><${Icon} name="cpu" />${modelName(plain(model))}</li>`}
    ${usage && html`<${Spent} usage=${usage} />`}
    <${Gauge} session=${session} />
    ${finished > 0 && html`<li><${Icon} name="network" />${counted(finished, "child", "children")}, ${children.some((child) => child.status === "orphaned") ? "none running" : "finished"}</li>`}
    ${incomplete && html`<li class="late" title=${missingOf(session, hostOf(session)?.gaps ?? [])}><${Icon} name="triangle-alert" />incomplete</li>`}
  </ul>`;
}

/** claude-opus-4-1-20250805 as "opus 4.1". @param {string} model */
export function modelName(model) {
  return model
    .replace(/^claude-/, "")
    .replace(/-\d{8}$/, "")
    .replace(/(\d)-(\d)/g, "$1.$2")
    .replaceAll("-", " ");
}
