// @ts-check
/** What a session did last, turn by turn, newest first; and what stands there while that is not known. */
import { signal } from "../vendor/signals.js";
import { plain } from "../asks.js";
import { exact, timeOfDay } from "../clock.js";
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

/** What the reader may want alone. */
const SPOKEN = ["prompt.submitted", "request.opened", "request.closed"];
/** The API gives no more. */
const MOST = 100;

/** The reader's choice holds from session to session. */
const spokenOnly = signal(false);

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
    ${entries.length > 0 && html`<${Turns} entries=${entries} family=${family} />`}`;
}

/** @param {{entries: ActivityEntry[], family: ChildView[]}} props */
function Turns({ entries, family }) {
  const only = spokenOnly.value;
  const left = only ? entries.filter(({ kind }) => SPOKEN.includes(kind)) : entries;
  return html`<button class="way log-choice" aria-pressed=${only} onClick=${() => (spokenOnly.value = !only)}><${Icon} name=${only ? "check" : "list-filter"} />Only prompts and requests</button>
    ${left.length === 0 && html`<p class="quiet">No prompt and no request is among the last ${entries.length.toLocaleString()} things it did.</p>`}
    ${left.length > 0 && html`<ol class="log" aria-label="Turns, newest first">${turnsOf(left).map(
      ({ key, prompt, steps }) => html`<li class="turn" key=${key}>
        ${prompt && html`<${Line} as="div" entry=${prompt[1]} family=${family} />`}
        ${steps.length > 0 && html`<ol class="turn-steps" aria-label="Newest first">${steps.map(([name, entry]) => html`<${Line} key=${name} entry=${entry} family=${family} />`)}</ol>`}
      </li>`,
    )}</ol>`}
    ${entries.length >= MOST && html`<p class="quiet log-end">The last ${MOST} are kept; what was before is in its transcript.</p>`}`;
}

/**
 * Each prompt with what came of it, newest first; what came before the first prompt that is kept, last.
 * @typedef {{key: string, prompt?: [string, ActivityEntry], steps: [string, ActivityEntry][]}} Turn
 * @param {ActivityEntry[]} entries newest first
 */
function turnsOf(entries) {
  /** @type {Turn[]} */
  const turns = [];
  /** @type {[string, ActivityEntry][]} */
  let steps = [];
  for (const named of keyed(entries)) {
    if (named[1].kind !== "prompt.submitted" || named[1].agent_id) {
      steps.push(named);
      continue;
    }
    turns.push({ key: named[0], prompt: named, steps });
    steps = [];
  }
  return steps.length > 0 ? [...turns, { key: "before", steps }] : turns;
}

/** How the hub words the end of a tool that failed, and of one that somebody stopped. */
const FAILED = /^\S+ failed: /;

/** @param {ActivityEntry} entry */
function isFailed({ kind, text = "" }) {
  return kind === "turn.failed" || (kind === "tool.finished" && FAILED.test(text)) || (kind === "child.finished" && text.endsWith(": failed"));
}

/** @param {{entry: ActivityEntry, family: ChildView[], as?: "li" | "div"}} props */
function Line({ entry, family, as = "li" }) {
  const { at, kind, text = "", agent_id } = entry;
  // An entry about a child names it; any other may have happened within one.
  const within = agent_id && !kind.startsWith("child.") ? agent_id : undefined;
  const failed = isFailed(entry);
  const { icon, words } = Object.hasOwn(KIND, kind)
    ? KIND[kind]
    : { icon: "circle-dashed", words: plain(kind).replace(/[._]/g, " ") };
  return html`<${as} class="line" data-kind=${kind} data-failed=${failed} data-child=${Boolean(within)}>
    <${Icon} name=${failed ? "octagon-x" : icon} />
    <b class="line-kind">${failed && kind === "tool.finished" ? "Tool failed" : words}</b>
    <p class="line-words" dir="auto">${plain(text)}${within && html` <span class="line-by">by ${askerOf(within, family)}</span>`}</p>
    <time class="line-at" datetime=${new Date(at).toISOString()} title=${exact(at)}>${timeOfDay(at)}</time>
    <${Age} at=${at} />
  <//>`;
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
