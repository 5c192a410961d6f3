// @ts-check
/** One session as a card. */
import { askOfSession, plain } from "../asks.js";
import { lastSeen } from "../roster.js";
import { iconOf, labelOf, remedyOf, toneOf } from "../states.js";
import { Age, Icon, counted, html } from "./html.js";

/** @import { Entry } from "../roster.js" */
/** @import { Ask } from "../asks.js" */
/** @import { ChildView, SessionView } from "../wire.js" */

const KIND = { agent: "subagent", shell: "background shell", monitor: "monitor", workflow: "workflow", cron: "schedule" };
const SHOWN_CHILDREN = 3;
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
  return html`<li class=${classes} data-id=${session.id} data-tone=${toneOf(state)} data-state=${state.state}>
    ${first && html`<p class="why"><strong>Attend to this first:</strong> ${first}</p>`}
    <article>
      <div class="card-top">
        <${Badge} session=${session} />
        ${absent
          ? html`<span class="seen"><${Icon} name="unplug" /><span>last seen <${Age} at=${lastSeen(session)} /> ago</span></span>`
          : html`<${Age} at=${state.since} />`}
      </div>
      <h3 class="title">
        <bdi>${titleOf(session)}</bdi>
      </h3>
      ${state.group === "needs_you" && html`<${AskBlock} ask=${askOfSession(session)} />`}
      <${Meta} session=${session} />
      <${Children} list=${session.children ?? []} />
      ${first && html`<p class="where"><${Icon} name="terminal" /><span>${remedyOf(state)} on <b>${plain(session.host)}</b>${session.cwd && html`, in <code>${plain(session.cwd)}</code>`}</span></p>`}
    </article>
  </li>`;
}

/** @param {SessionView} session */
export function titleOf(session) {
  return plain(session.title || session.project || `Session ${session.session_id.slice(0, 8)}`);
}

/** @param {{session: SessionView}} props */
function Badge({ session: { state } }) {
  const why = `${state.state}, says the ${state.source} (${Math.round(state.confidence * 100)} % sure)`;
  return html`<span class="badge" title=${why}><${Icon} name=${iconOf(state)} /><bdi>${plain(labelOf(state))}</bdi></span>`;
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
function Meta({ session }) {
  const { project, host, branch, model, reachability, incomplete } = session;
  return html`<ul class="meta">
    ${project && session.title && html`<li><${Icon} name="folder" /><bdi>${plain(project)}</bdi></li>`}
    <li><${Icon} name="server" /><bdi>${plain(host)}</bdi>${reachability === "late" && html`<span class="late" title="Its collector has not been heard for more than 10 s">late</span>`}</li>
    ${branch && html`<li><${Icon} name="git-branch" /><bdi>${plain(branch)}</bdi></li>`}
    ${model && html`<li title=${plain(model)}><${Icon} name="cpu" />${modelName(plain(model))}</li>`}
    ${incomplete && html`<li class="late" title="Some of what this session did never arrived here"><${Icon} name="triangle-alert" />incomplete</li>`}
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

/** @param {{list: ChildView[]}} props */
function Children({ list }) {
  const alive = list.filter((child) => child.finished_at == null && child.status !== "finished");
  if (alive.length === 0) return null;
  const more = alive.length - SHOWN_CHILDREN;
  return html`<ul class="children" aria-label=${counted(alive.length, "child", "children")}>
    ${alive.slice(0, SHOWN_CHILDREN).map(
      (child) => html`<li key=${child.id}>
        <span class="child-kind">${child.type ? plain(child.type) : (KIND[/** @type {keyof typeof KIND} */ (child.kind)] ?? plain(child.kind))}</span>
        <bdi class="child-words">${plain(child.description ?? child.status)}</bdi>
        ${child.started_at != null && html`<${Age} at=${child.started_at} />`}
      </li>`,
    )}
    ${more > 0 && html`<li class="child-more">and ${more} more</li>`}
  </ul>`;
}
