// @ts-check
/** What is known of a session: why it stands so, what to do, what was said, its usage, facts, witnesses, JSON. */
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { Meta } from "../board/card.js";
import { askHub } from "../core/api.js";
import {
  capital, costOf, costSource, duration, exact, fullness, HIDDEN, limitName, nearlyFull, plain, tokensOf, visible,
} from "../core/format.js";
import { problemOf, whoTold, witnessName } from "../core/hosts.js";
import { openSession } from "../core/navigation.js";
import { agentOf, hostOf, lastSeen } from "../core/roster.js";
import { isNew, isOver, remedyOf } from "../core/states.js";
import { Command, Copy, Heard, Part } from "../ui/controls.js";
import { Age, Bar, Code, html, Icon } from "../ui/html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { ContextView, SessionView, UsageView } from "../wire.js" */

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
  return html`
    <section class="sheet-state" aria-label="State">
      <p class="because">
        <b>Why:</b> ${whoTold(source)}, ${sureness(confidence)} (${Math.round(confidence * 100)} %), since${" "}
        <time datetime=${new Date(since).toISOString()}>${exact(since)}</time>.
      </p>
      <${OtherWitnesses} session=${session} />
      ${session.reachability === "offline" && html`
        <p class="because">
          <${Icon} name="unplug" /> Its host is offline. Last seen${" "}
          <${Age} at=${lastSeen(session)} /> ago.
        </p>
      `}
      ${session.ended_at != null && html`
        <p class="because">
          <${Icon} name="history" /> It ended on ${exact(session.ended_at)}. What is still stored is shown.
        </p>
      `}
      <${Said} session=${session} />
      <${Reported} session=${session} />
      <${Meta} session=${session} />
    </section>
  `;
}

/** Whoever was heard since it stands like that has said nothing else. @param {{session: SessionView}} props */
function OtherWitnesses({ session: { witnesses = [], state } }) {
  const others = witnesses.filter(({ name }) => name !== state.source);
  const agree = others.filter(({ heard_at }) => heard_at >= state.since).map(({ name }) => witnessName(name));
  const quiet = others
    .filter(({ heard_at }) => heard_at > 0 && heard_at < state.since)
    .map(({ name }) => witnessName(name));
  if (agree.length + quiet.length === 0) return null;
  return html`
    <p class="because">
      ${agree.length > 0 && `Heard since, in agreement: ${agree.join(", ")}.`}${" "}
      ${quiet.length > 0 && `Last heard before that: ${quiet.join(", ")}.`}
    </p>
  `;
}

/** What is wrong, at length, with the next step. @param {{session: SessionView}} props */
export function Warnings({ session }) {
  return (session.witnesses ?? []).map((witness) => {
    const problem = problemOf(witness);
    return (
      problem && html`
        <div class="warning" key=${witness.name} role="note">
          <p>
            <${Icon} name="triangle-alert" />
            <strong>${problem.label}.</strong> ${problem.text}
          </p>
          <p>
            What to run on <b>${plain(session.host)}</b>:
          </p>
          <div class="commands">
            ${problem.commands.map((command) => html`
              <${Command} key=${command} text=${command} />
            `)}
          </div>
        </div>
      `
    );
  });
}

/** @param {{session: SessionView}} props */
export function ToDo({ session }) {
  const { state, host, cwd, reachability } = session;
  const over = isOver(state);
  const resume = over ? resumeOf(session) : undefined;
  const words = over
    ? resume
      ? "It has ended. To resume it, run this on its machine:"
      : "It has ended."
    : state.group === "needs_you"
      ? `${session.requests?.some(({ hold }) => hold) ? "Answer it above, or in its terminal" : remedyOf(state)}.`
      : state.group === "autonomous"
        ? "Nothing: it is working."
        : "Nothing. Its results are here:";
  const away =
    reachability === "offline" &&
    !over &&
    `Its machine is out of reach${hostOf(session) ? "" : " and no longer in the list"}; ` +
      "your answers there show once it is back.";
  return html`
    <${Part} part="todo" title="What to do">
      <p>
        ${words}
        ${away && ` ${away}`}
      </p>
      ${resume && html`<${Command} text=${resume} />`}
      <dl class="facts places">
        <div>
          <dt>host</dt>
          <dd>
            <bdi>${plain(host)}</bdi>
            <${Copy} text=${plain(host)} what="the host's name" />
          </dd>
        </div>
        ${cwd && html`
          <div>
            <dt>directory</dt>
            <dd>
              <span class="raw"><${Code} text=${cwd} /></span>
              <${Copy} text=${plain(cwd)} what="the directory" />
            </dd>
          </div>
        `}
      </dl>
    <//>
  `;
}

/**
 * The command that takes a session up again; nothing where it would not be safe to paste: path and
 * command are what an agent's machine says they are.
 * @param {SessionView} session
 */
export function resumeOf(session) {
  const { session_id, cwd } = session;
  const command = agentOf(session)?.resume ?? "";
  if (
    !/^[\w-]+( [\w-]+){0,4}$/.test(command) ||
    !/^[\w-]{1,100}$/.test(session_id) ||
    (cwd && visible(cwd) !== cwd) ||
    cwd?.includes("\n")
  )
    return undefined;
  const resume = `${command} ${session_id}`;
  if (!cwd) return resume;
  const [home, path] = cwd.startsWith("~/") ? ["~/", cwd.slice(2)] : ["", cwd];
  return `cd ${home}${/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`} && ${resume}`;
}

/** Its own last words, where the state brings them along. @param {SessionView} session */
function saidBy({ state: { context } }) {
  const said = context?.message ?? context?.last_message ?? context?.error;
  return typeof said === "string" ? said.trim() : "";
}

/** @param {{session: SessionView}} props */
export function Said({ session }) {
  const said = saidBy(session);
  return (
    said && html`
      <blockquote class="said" dir="auto">
        ${plain(said)}
      </blockquote>
    `
  );
}

/** Its own word of its work, whole. @param {{session: SessionView}} props */
function Reported({ session: { report } }) {
  if (!report) return null;
  return html`
    <p class="because">
      <b>Reported:</b> ${plain([report.status, report.issue].filter(Boolean).join(" "))}${" "}
      ${report.by && `by ${plain(report.by)}, `}<${Age} at=${report.at} /> ago.
    </p>
    ${report.notes && html`
      <blockquote class="said" dir="auto">
        ${plain(report.notes)}
      </blockquote>
    `}
  `;
}

/** By either; not again what its state says already. @param {{session: SessionView}} props */
export function Words({ session }) {
  const prompt = session.last_prompt?.trim();
  const answer = session.last_answer?.trim();
  if (!prompt && !answer) return isNew(session.state) || saidBy(session) ? null : html`<${Unheard} />`;
  const quoted = answer === saidBy(session);
  if (!prompt && quoted) return null;
  return html`
    <${Part} part="words" title="Said last">
      ${prompt && html`
        <h4 class="said-by">You</h4>
        <blockquote class="said" dir="auto">
          ${plain(prompt)}
        </blockquote>
      `}
      ${answer && !quoted && html`
        <h4 class="said-by">Agent</h4>
        <blockquote class="said" dir="auto">
          ${plain(answer)}
        </blockquote>
      `}
    <//>
  `;
}

function Unheard() {
  return html`
    <${Part} part="words" title="Said last">
      <p class="quiet">
        Unknown. Either no witness has reported a prompt or an answer, or its machine does not send them (privacy
        level “metadata”).
      </p>
    <//>
  `;
}

/** @param {{session: SessionView}} props */
export function UsageFacts({ session: { usage, context, plan } }) {
  const cost = !plan && usage && costOf(usage);
  return html`
    <dl class="facts used">
      ${plan && html`
        <div class="used-cost">
          <dt>plan</dt>
          <dd>
            <b>${plain(plan.name)}</b>, tokens are not billed
          </dd>
        </div>
        ${(plan.limits ?? []).map(({ name, used_percent, resets_at }) => html`
          <div class="used-kind" key=${name}>
            <dt>${plain(limitName(name))}</dt>
            <dd>
              <${Bar} percent=${used_percent} />
              <span>${Math.round(used_percent)} %${resets_at ? `, resets at ${exact(resets_at)}` : ""}</span>
            </dd>
          </div>
        `)}
      `}
      ${cost && html`
        <div class="used-cost">
          <dt>cost</dt>
          <dd>
            <b>${cost}</b>, ${costSource(usage)}
          </dd>
        </div>
      `}
      ${usage && html`<${Kinds} usage=${usage} />`}
      ${context && html`<${Context} context=${context} />`}
    </dl>
  `;
}

/** @param {{usage: UsageView}} props */
function Kinds({ usage }) {
  const all = tokensOf(usage);
  /** @type {[string, number | undefined][]} */
  const kinds = [
    ["input", usage.input_tokens],
    ["output", usage.output_tokens],
    ["cache read", usage.cache_read_tokens],
    ["cache written", usage.cache_write_tokens],
  ];
  return html`
    ${all > 0 && html`
      <div>
        <dt>tokens</dt>
        <dd class="amount">${all.toLocaleString()}</dd>
      </div>
    `}
    ${kinds.map(([name, count]) =>
      count ? html`
        <div class="used-kind" key=${name}>
          <dt>${name}</dt>
          <dd>
            <${Bar} percent=${(100 * count) / all} />
            <span class="amount">${count.toLocaleString()}</span>
          </dd>
        </div>
      ` : null,
    )}
    ${usage.web_searches ? html`
      <div>
        <dt>web searches</dt>
        <dd class="amount">${usage.web_searches.toLocaleString()}</dd>
      </div>
    ` : null}
  `;
}

/** @param {{context: ContextView}} props */
function Context({ context }) {
  const percent = fullness(context);
  const near = percent !== undefined && nearlyFull(percent);
  return html`
    <div class="used-context" data-near=${near}>
      <dt>context</dt>
      <dd>
        ${percent !== undefined && html`<${Bar} percent=${percent} />`}
        <span class="amount">
          ${near && html`<${Icon} name="triangle-alert" />`}
          ${context.tokens.toLocaleString()}
          ${context.size ? ` of ${context.size.toLocaleString()}` : ""} tokens
          ${percent === undefined ? "" : `, ${percent} % full`}
        </span>
      </dd>
    </div>
  `;
}

/** @param {{session: SessionView}} props */
export function About({ session }) {
  const { started_at: from, ended_at: to } = session;
  const time = (/** @type {number | null | undefined} */ at) => at && exact(at);
  const text = (/** @type {string | number | null | undefined} */ value) =>
    value != null && value !== "" && html`<bdi>${plain(value)}</bdi>`;
  const path = (/** @type {string | null | undefined} */ value) => value && html`<${Code} text=${value} />`;
  /** @type {[string, ComponentChildren][]} */
  const facts = [
    [
      "session",
      html`
        <bdi>${plain(session.id)}</bdi>
        <${Copy} text=${plain(session.session_id)} what="the session's id" />
      `,
    ],
    ["agent", text(session.version ? `${session.agent} ${session.version}` : session.agent)],
    ["limits", text(agentOf(session)?.limits)],
    ["directory", path(session.cwd)],
    ["worktree", path(session.worktree)],
    ["branch", text(session.branch)],
    ["pull request", session.pr && html`<${PullRequest} address=${session.pr} />`],
    ["forked from", session.forked_from && html`<${ForkedFrom} session=${session} />`],
    ["team mate", text(session.mate)],
    ["model", text(session.model)],
    ["mode", text(session.mode)],
    ["process", text(session.pid)],
    ["started", time(from)],
    ["ended", time(to)],
    ["duration", from && to && to > from ? duration(to - from) : undefined],
    ["changed", exact(session.updated_at)],
  ];
  return html`
    <dl class="facts">
      ${facts
        .filter(([, value]) => value)
        .map(([name, value]) => html`
          <div key=${name}>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>
        `)}
    </dl>
  `;
}

/**
 * A link only if it leads to a web page; anything else an agent wrote there is shown as it is.
 * @param {{address: string}} props
 */
function PullRequest({ address }) {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !["http:", "https:"].includes(url.protocol)) return html`<${Code} text=${address} />`;
  return html`
    <a class="link" href=${url.href} target="_blank" rel="noopener noreferrer">
      <${Code} text=${url.href} />
      <span class="sr">, opens in a new tab</span>
    </a>
  `;
}

/** The session it was forked from lies on the same machine. @param {{session: SessionView}} props */
function ForkedFrom({ session: { host_id, forked_from } }) {
  return html`
    <button class="link" onClick=${() => openSession(`${host_id}:${forked_from}`)}>
      <bdi>${plain(forked_from)}</bdi>
    </button>
  `;
}

/** @param {{session: SessionView}} props */
export function SessionWitnesses({ session }) {
  const witnesses = session.witnesses ?? [];
  if (witnesses.length === 0) return html`<p class="quiet">No witness is known.</p>`;
  return html`
    <ul class="witnesses">
      ${witnesses.map((witness) => {
        const problem = problemOf(witness);
        return html`
          <li key=${witness.name} data-unwell=${Boolean(problem)}>
            <${Icon} name=${problem ? "triangle-alert" : "check"} />
            <span class="witness-name">${capital(witnessName(witness.name))}</span>
            <span class="witness-state">
              ${problem && `${plain(witness.problem)}, `}
              <${Heard} at=${witness.heard_at} />
            </span>
          </li>
        `;
      })}
    </ul>
  `;
}

const hidden = new RegExp(`[${HIDDEN}]`, "gu");

/** What nobody sees is in the escapes that JSON has for it. @param {unknown} value */
function asText(value) {
  const escape = (/** @type {string} */ unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, 2).replace(hidden, (sign) => sign.split("").map(escape).join(""));
}

/** @param {{id: string}} props */
export function Raw({ id }) {
  const told = useSignal(/** @type {{text?: string, why?: string}} */ ({}));
  const stopped = useRef(/** @type {AbortController | undefined} */ (undefined));
  useEffect(() => () => stopped.current?.abort(), []);
  const ask = async () => {
    stopped.current?.abort();
    const asked = (stopped.current = new AbortController());
    const path = `/api/v1/sessions/${encodeURIComponent(id)}`;
    const { body, why } = await askHub(path, asked.signal);
    if (!asked.signal.aborted) told.value = why ? { ...told.peek(), why } : { text: asText(body) };
  };
  const { text, why } = told.value;
  return html`
    <details
      class="part raw-part"
      data-part="raw"
      onToggle=${(/** @type {Event} */ toggled) => /** @type {HTMLDetailsElement} */ (toggled.target).open && ask()}
    >
      <summary>
        <${Icon} name="chevron-right" />
        <h3>Raw</h3>
        <span class="part-note">as returned by the API</span>
      </summary>
      ${why && html`
        <p class="log-failed" role="alert">
          <${Icon} name="triangle-alert" />
          <span>${why}</span>
          <button class="button" onClick=${ask}>
            <${Icon} name="refresh-cw" />
            Try again
          </button>
        </p>
      `}
      ${text === undefined ? (
        !why && html`
          <p class="quiet" role="status">
            Loading
          </p>
        `
      ) : html`
        <div class="raw-ways">
          <${Copy} text=${text} what="the JSON" words="Copy" />
          <button class="way" onClick=${ask}>
            <${Icon} name="refresh-cw" />
            <span class="way-words">Fetch again</span>
          </button>
        </div>
        <pre class="json" dir="ltr" tabindex="0" role="region" aria-label="The session as JSON">
          ${text}
        </pre>
      `}
    </details>
  `;
}
