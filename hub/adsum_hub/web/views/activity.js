// @ts-check
/** What a session did last, newest first; and what stands there while that is not known. */
import { plain } from "../asks.js";
import { Age, Icon, html } from "./html.js";
import { askerOf } from "./requests.js";

/** @import { Activity } from "../activity.js" */
/** @import { ReadonlySignal } from "../vendor/signals.js" */
/** @import { ActivityEntry, ChildView } from "../wire.js" */

/** @type {Record<string, {icon: string, words: string}>} */
const KIND = {
  "session.started": { icon: "power", words: "Session started" },
  "session.ended": { icon: "power", words: "Session ended" },
  "process.gone": { icon: "power", words: "Process gone" },
  "prompt.submitted": { icon: "terminal", words: "Prompt" },
  "prompt.dequeued": { icon: "list-plus", words: "Prompt taken up" },
  "turn.ended": { icon: "circle-check", words: "Turn ended" },
  "turn.failed": { icon: "octagon-x", words: "Turn failed" },
  "turn.interrupted": { icon: "hand", words: "Interrupted" },
  "tool.started": { icon: "wrench", words: "Tool" },
  "tool.finished": { icon: "check", words: "Tool ended" },
  "request.opened": { icon: "message-circle-question-mark", words: "Asks you" },
  "request.closed": { icon: "check", words: "Settled" },
  "hook.released": { icon: "check", words: "Hook answered" },
  "child.started": { icon: "plus", words: "Child started" },
  "child.finished": { icon: "circle-check", words: "Child finished" },
  "task.created": { icon: "list-plus", words: "Task" },
  "task.completed": { icon: "circle-check", words: "Task done" },
  "compaction.started": { icon: "fold-vertical", words: "Compaction" },
  "compaction.finished": { icon: "fold-vertical", words: "Compacted" },
  "retry.scheduled": { icon: "rotate-cw", words: "Retry" },
  "budget.exceeded": { icon: "wallet", words: "Over budget" },
  alive: { icon: "activity", words: "Notice" },
};

/**
 * @param {{activity: ReadonlySignal<Activity>, family: ChildView[], over: boolean, askNow: () => void}} props
 * family: the session's children, of whom an entry may tell
 */
export function Log({ activity, family, over, askNow }) {
  const { phase, entries, why } = activity.value;
  if (phase === "loading") {
    return html`<div aria-busy="true"><p class="sr" role="status">Fetching what it did</p>${[1, 2, 3].map((n) => html`<div class="log-ghost" key=${n}></div>`)}</div>`;
  }
  if (phase === "left") return html`<p class="quiet" role="status">The hub keeps no record of this session any more.</p>`;
  return html`${phase === "failed" && html`<p class="log-failed" role="alert">
      <${Icon} name="triangle-alert" /><span>${why} ${entries.length > 0 ? "Below is what it did before." : ""}</span>
      <button class="button" onClick=${askNow}><${Icon} name="refresh-cw" />Try again</button>
    </p>`}
    ${phase === "shown" && entries.length === 0 && html`<p class="quiet">${over ? "Nothing of what it did is kept." : "Nothing has been heard of what it does yet."}</p>`}
    ${entries.length > 0 && html`<ol class="log" aria-label="Newest first">${keyed(entries).map(
      ([key, entry]) => html`<${Line} key=${key} entry=${entry} family=${family} />`,
    )}</ol>`}`;
}

/** How the hub words the end of a tool that failed. */
const FAILED = /^\S+ failed: /;

/** @param {{entry: ActivityEntry, family: ChildView[]}} props */
function Line({ entry: { at, kind, text = "", agent_id }, family }) {
  // An entry about a child names it; any other may have happened within one.
  const within = agent_id && !kind.startsWith("child.") ? agent_id : undefined;
  const failed = kind === "turn.failed" || (kind === "tool.finished" && FAILED.test(text));
  const { icon, words } = Object.hasOwn(KIND, kind)
    ? KIND[kind]
    : { icon: "circle-dashed", words: plain(kind).replace(/[._]/g, " ") };
  return html`<li class="line" data-kind=${kind} data-failed=${failed} data-child=${Boolean(within)}>
    <${Icon} name=${failed ? "octagon-x" : icon} />
    <b class="line-kind">${words}</b>
    <p class="line-words" dir="auto">${plain(text)}${within && html` <span class="line-by">by ${askerOf(within, family)}</span>`}</p>
    <${Age} at=${at} />
  </li>`;
}

/** Two entries may be alike in all they say. @param {ActivityEntry[]} entries @returns {[string, ActivityEntry][]} */
function keyed(entries) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  return entries.map((entry) => {
    const name = `${entry.at} ${entry.kind} ${entry.text ?? ""} ${entry.agent_id ?? ""}`;
    const nth = seen.get(name) ?? 0;
    seen.set(name, nth + 1);
    return [`${name} ${nth}`, entry];
  });
}
