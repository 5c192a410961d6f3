// @ts-check
/** What a session has started, and what it did, turn by turn. */
import { signal } from "../vendor/signals-core.js";
import { askerOf, CHILD_KINDS, childName, runningFirst, runs } from "../board/card.js";
import { counted, duration, exact, LONGEST, plain, timeOfDay } from "../core/format.js";
import { Age, Code, html, Icon } from "../ui/html.js";

/** @import { ReadonlySignal } from "../vendor/signals-core.js" */
/** @import { Activity } from "./state.js" */
/** @import { ActivityEntry, ChildView } from "../wire.js" */

const MOST_CHILDREN = 200;

/** @type {Record<string, string>} */
const ENDED = {
  completed: "circle-check",
  failed: "octagon-x",
  killed: "x",
  stopped: "x",
  interrupted: "hand",
  orphaned: "unplug",
  running: "activity",
};

/** over: their session is. @param {{list: ChildView[], over: boolean}} props */
export function Family({ list, over }) {
  const more = list.length - MOST_CHILDREN;
  return html`
    <ul
      class="children family"
      aria-label=${`${counted(list.length, "child", "children")}, ${list.filter(runs).length} running`}
    >
      ${runningFirst(list)
        .slice(0, MOST_CHILDREN)
        .map((child) => html`
          <${FamilyBranch} key=${child.id} child=${child} over=${over} />
        `)}
      ${more > 0 && html`<li class="child-more">and ${more.toLocaleString()} more</li>`}
    </ul>
  `;
}

/** @param {{child: ChildView, over: boolean}} props */
function FamilyBranch({ child, over }) {
  const kind = Object.hasOwn(CHILD_KINDS, child.kind)
    ? CHILD_KINDS[child.kind]
    : { icon: "circle-dashed", words: plain(child.kind) };
  const type = child.description && child.type;
  return html`
    <li class="child" data-running=${runs(child)} data-status=${child.status}>
      <span class="child-kind">
        <${Icon} name=${kind.icon} />
        <span class="sr">${kind.words}</span>
      </span>
      <span class="child-words">
        <bdi>${childName(child)}</bdi>
        ${type && html`
          <span class="child-type">
            ${" "}
            <bdi>${plain(type)}</bdi>
          </span>
        `}
      </span>
      <span class="child-status">
        <${Icon} name=${Object.hasOwn(ENDED, child.status) ? ENDED[child.status] : "circle-dashed"} />
        <${Ending} child=${child} over=${over} />
      </span>
    </li>
  `;
}

/**
 * Of one that nobody told how it ended, the end is when it was last heard.
 * @param {{child: ChildView, over: boolean}} props
 */
function Ending({ child, over }) {
  const { status, started_at: from, finished_at: to } = child;
  if (status === "orphaned")
    return html`
      <span title="Orphaned: how it ended is unknown">
        <span class="sr">orphaned, </span>
        ${over || to == null ? (
          "its session ended"
        ) : html`
          no word for <${Age} at=${to} />
        `}
      </span>
    `;
  const at = runs(child) ? from : (to ?? from);
  const took = from != null && to != null && to > from && `, took ${duration(to - from)}`;
  return html`
    <span>
      ${plain(status)}
      ${at != null && html`
        ${" "}
        <${Age} at=${at} />
        ${!runs(child) && " ago"}
      `}
      ${took}
    </span>
  `;
}

/** @type {Record<string, {icon: string, words: string}>} */
const KIND = {
  "session.started": { icon: "power", words: "Session started" },
  "session.ended": { icon: "power", words: "Session ended" },
  "session.suspended": { icon: "circle-pause", words: "Suspended" },
  "process.gone": { icon: "power", words: "Process gone" },
  "prompt.submitted": { icon: "terminal", words: "Prompt" },
  "prompt.dequeued": { icon: "list-plus", words: "Queued prompt started" },
  "turn.ended": { icon: "circle-check", words: "Turn ended" },
  "turn.failed": { icon: "octagon-x", words: "Turn failed" },
  "turn.interrupted": { icon: "hand", words: "Interrupted" },
  "tool.started": { icon: "wrench", words: "Tool" },
  "tool.finished": { icon: "check", words: "Tool ended" },
  "request.opened": { icon: "message-circle-question-mark", words: "Asks you" },
  "request.closed": { icon: "check", words: "Settled" },
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
    return html`
      <div aria-busy="true">
        <p class="sr" role="status">
          Loading its activity
        </p>
        ${[1, 2, 3].map((n) => html`
          <div class="log-ghost" key=${n}></div>
        `)}
      </div>
    `;
  }
  if (phase === "left")
    return html`
      <p class="quiet" role="status">
        The hub no longer has a record of this session.
      </p>
    `;
  return html`
    ${phase === "failed" && html`
      <p class="log-failed" role="alert">
        <${Icon} name="triangle-alert" />
        <span>
          ${why} ${entries.length > 0 ? "Below is its activity so far." : ""}
        </span>
        <button class="button" onClick=${askNow}>
          <${Icon} name="refresh-cw" />
          Try again
        </button>
      </p>
    `}
    ${phase === "shown" && entries.length === 0 && html`
      <p class="quiet">
        ${over ? "Its activity is no longer stored." : "No activity yet."}
      </p>
    `}
    ${entries.length > 0 && html`<${Turns} entries=${entries} family=${family} />`}
  `;
}

/** @param {{entries: ActivityEntry[], family: ChildView[]}} props */
function Turns({ entries, family }) {
  const only = spokenOnly.value;
  const left = only ? entries.filter(({ kind }) => SPOKEN.includes(kind)) : entries;
  return html`
    <button class="way log-choice" aria-pressed=${only} onClick=${() => (spokenOnly.value = !only)}>
      <${Icon} name=${only ? "check" : "list-filter"} />
      Only prompts and requests
    </button>
    ${left.length === 0 && html`
      <p class="quiet">
        There is no prompt and no request among the last ${entries.length.toLocaleString()} entries.
      </p>
    `}
    ${left.length > 0 && html`
      <ol class="log" aria-label="Turns, newest first">
        ${turnsOf(left).map(({ key, prompt, steps }) => html`
          <li class="turn" key=${key}>
            ${prompt && html`<${Line} as="div" entry=${prompt[1]} family=${family} />`}
            ${steps.length > 0 && html`
              <ol class="turn-steps" aria-label="Newest first">
                ${steps.map(([name, entry]) => html`
                  <${Line} key=${name} entry=${entry} family=${family} />
                `)}
              </ol>
            `}
          </li>
        `)}
      </ol>
    `}
    ${entries.length >= MOST && html`
      <p class="quiet log-end">The last ${MOST} entries are stored; older ones are in its transcript.</p>
    `}
  `;
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
  return (
    kind === "turn.failed" ||
    (kind === "tool.finished" && FAILED.test(text)) ||
    (kind === "child.finished" && text.endsWith(": failed"))
  );
}

/** @param {{entry: ActivityEntry, family: ChildView[], as?: "li" | "div"}} props */
function Line({ entry, family, as = "li" }) {
  const { at, kind, text = "", agent_id } = entry;
  // An entry about a child names it; any other may have happened within one.
  const within = agent_id && !kind.startsWith("child.") ? agent_id : undefined;
  const failed = isFailed(entry);
  const code = /^(tool|request)\./.test(kind);
  const { icon, words } = Object.hasOwn(KIND, kind)
    ? KIND[kind]
    : { icon: "circle-dashed", words: plain(kind).replace(/[._]/g, " ") };
  return html`
    <${as} class="line" data-kind=${kind} data-failed=${failed} data-child=${Boolean(within)}>
      <${Icon} name=${failed ? "octagon-x" : icon} />
      <b class="line-kind">${failed && kind === "tool.finished" ? "Tool failed" : words}</b>
      <p class="line-words" dir=${code ? "ltr" : "auto"}>
        ${code ? html`<${Code} text=${text.slice(0, LONGEST)} />` : plain(text)}
        ${within && html`${" "}<span class="line-by">by ${askerOf(within, family)}</span>`}
      </p>
      <time class="line-at" datetime=${new Date(at).toISOString()} title=${exact(at)}>
        ${timeOfDay(at)}
      </time>
      <${Age} at=${at} />
    <//>
  `;
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
