// @ts-check
/** One session as a card, with its badge, unread mark, warnings and usage. */
import { useEffect, useId, useMemo, useRef } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals-core.js";
import { isSeen, markNoticed, unreadIn } from "../core/attention.js";
import { costOf, counted, exactUsage, fullness, nearlyFull, plain, planOf, short, tokensOf } from "../core/format.js";
import { missingOf, problemOf, sourceWords } from "../core/hosts.js";
import { opened, openSession } from "../core/navigation.js";
import { askOfSession, openRequests } from "../core/requests.js";
import { hostOf, lastSeen, otherAgent } from "../core/roster.js";
import { iconOf, isOver, labelOf, modelName, remedyOf, titleOf, toneOf } from "../core/states.js";
import { Age, Bar, Code, html, Icon, lazy } from "../ui/html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { Ask } from "../core/requests.js" */
/** @import { Entry } from "../core/roster.js" */
/** @import { ChildView, Group, PlanView, SessionView, UsageView } from "../wire.js" */

const Control = lazy(() => import("../control/view.js"), "control/control");

/** Younger than that, the age of its state says the same. */
const ACTIVE_MS = 10_000;
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
  const request = openRequests(session)[0];
  const held = isHeld(session);
  const cwd = request?.hold ? request.hold.cwd : session.cwd;
  // Above what is asked, where a press decides: on a phone what is below the buttons is below the screen.
  const where = html`
    <p class="where" data-held=${held}>
      <${Icon} name="terminal" />
      <span>
        ${held ? "Answer it here, or in its terminal" : remedyOf(state)} on <b>${plain(session.host)}</b>
        ${cwd && html`
          , in <code><${Code} text=${cwd} /></code>
        `}
      </span>
    </p>
  `;
  const classes = [
    "card",
    first && "card-first",
    absent && "card-absent",
    Date.now() - entry.moved < NEW_MS && "card-new",
  ]
    .filter(Boolean)
    .join(" ");
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    // The whole card is as good as its button, yet what it says can still be selected and copied.
    if (/** @type {Element} */ (click.target).closest("button, [popover]") || getSelection()?.toString()) return;
    openSession(session.id);
  };
  return html`
    <li class=${classes} data-id=${session.id} data-tone=${toneOf(state)} data-state=${state.state} onClick=${onClick}>
      ${first && html`
        <p class="why">
          <strong>Start here:</strong> ${first}
        </p>
      `}
      <article>
        <div class="card-top">
          <${Badge} session=${session} />
          ${absent ? html`
            <span class="seen">
              <${Icon} name="unplug" />
              <span>
                last seen <${Age} at=${lastSeen(session)} /> ago
              </span>
            </span>
          ` : html`
            <${Age} at=${state.since} />
          `}
        </div>
        <h3 class="title">
          <${NewMark} entry=${entry} />
          <${Opener} session=${session} />
        </h3>
        ${held && where}
        ${state.group === "needs_you" && html`<${AskBlock} ask=${askOfSession(session)} whole=${held} />`}
        ${held && html`<${Control} part="Card" quiet session=${session} />`}
        <${Latest} session=${session} />
        <${Meta} session=${session} />
        <${Branches} list=${session.children ?? []} />
        <${Problems} session=${session} />
        ${!held && (first || (state.group === "needs_you" && !absent && request)) && where}
      </article>
    </li>
  `;
}

/** Opens the details. @param {{session: SessionView}} props */
function Opener({ session: { id, ...session } }) {
  // A signal as attribute: opening one card's details draws no other card again.
  const expanded = useMemo(() => computed(() => opened.value === id), [id]);
  return html`
    <button class="open" aria-haspopup="dialog" aria-expanded=${expanded} onClick=${() => openSession(id)}>
      <bdi>${titleOf(session)}</bdi>
    </button>
  `;
}

/** What a card says of its witnesses: only what is wrong. @param {{session: SessionView}} props */
function Problems({ session }) {
  const problems = (session.witnesses ?? []).map(problemOf).filter((problem) => problem !== undefined);
  if (problems.length === 0) return null;
  return html`
    <ul class="problems" aria-label="Witnesses">
      ${problems.map(({ label, text, commands }) => html`
        <li key=${label}>
          <${Hint} label=${label} onPress=${() => openSession(session.id)}>
            ${text}${" "}
            <span class="hint-next">
              Next:${" "}
              ${commands.map((command, i) => html`
                ${i > 0 && " or "}
                <code key=${command}>${command}</code>
              `)}${" "}
              on <b>${plain(session.host)}</b>.
            </span>
          <//>
        </li>
      `)}
    </ul>
  `;
}

/** @param {{session: SessionView}} props */
export function Badge({ session: { state, display } }) {
  const label = plain(labelOf(state));
  const why = `${state.state}${display?.label ? `, ${label}` : ""}. ${sourceWords(state.source, state.confidence)}`;
  return html`
    <span class="badge" title=${why}>
      <${Icon} name=${iconOf(state)} />
      <bdi>${display?.label ? plain(display.label) : label}</bdi>
    </span>
  `;
}

/** What domains say beside the label. @param {{session: SessionView}} props */
function Chips({ session }) {
  return html`
    ${(session.display?.chips ?? []).map(({ text, tone = "plain" }) => html`
      <li key=${text} class="chip" data-tone=${tone}>
        <bdi>${plain(text)}</bdi>
      </li>
    `)}
  `;
}

/** What it said last, where nothing is asked and nothing runs. @param {{session: SessionView}} props */
function Latest({ session: { state, requests = [], last_answer: said } }) {
  if (!said || requests.length > 0 || state.group === "autonomous") return null;
  // It stands above.
  if (state.state === "error" && said.startsWith(String(state.context?.message))) return null;
  return html`
    <p class="latest" dir="auto" title=${plain(said)}>
      <span class="sr">Last: </span>
      ${plain(said).replace(/\s+/g, " ")}
    </p>
  `;
}

/** It can be decided from here, if anybody may. @param {SessionView} session */
function isHeld(session) {
  return session.reachability !== "offline" && Boolean(openRequests(session)[0]?.hold);
}

/** whole: nothing of it is cut, for it can be decided here. @param {{ask: Ask | undefined, whole: boolean}} props */
function AskBlock({ ask, whole }) {
  if (!ask) return null;
  return html`
    <div class="ask" data-form=${ask.form} data-whole=${whole}>
      ${ask.note && html`
        <p class="ask-note" dir="auto">
          ${ask.note}
        </p>
      `}
      <div class="ask-box">
        <p class="ask-text" dir=${ask.code ? "ltr" : "auto"}>
          ${ask.code ? html`<${Code} text=${ask.text} />` : ask.text}
        </p>
      </div>
      ${ask.options && ask.options.length > 0 && html`
        <ol class="options">
          ${ask.options.map((option, i) => html`
            <li key=${i} dir="auto">
              ${option}
            </li>
          `)}
        </ol>
      `}
      ${ask.more && html`<p class="ask-more">${ask.more}</p>`}
    </div>
  `;
}

/** It works, and has done something since its state began. @param {SessionView} session */
function isActive({ state, reachability, updated_at: heard }) {
  return state.group === "autonomous" && reachability !== "offline" && heard - state.since >= ACTIVE_MS;
}

/** @param {{session: SessionView}} props */
export function Meta({ session }) {
  const { project, host, branch, model, reachability, incomplete, usage, plan, review, report } = session;
  const { children = [], queue = [] } = session;
  const finished = finishedCount(children);
  const agent = otherAgent(session);
  return html`
    <ul class="meta">
      <${Chips} session=${session} />
      ${agent && html`
        <li>
          <${Icon} name="bot" />
          <bdi>${agent}</bdi>
        </li>
      `}
      ${project && session.title && html`
        <li>
          <${Icon} name="folder" />
          <bdi>${plain(project)}</bdi>
        </li>
      `}
      <li>
        <${Icon} name="server" />
        <bdi>${plain(host)}</bdi>
        ${reachability === "late" && html`
          <span class="late" title="No heartbeat from its collector for more than 10 s">
            late
          </span>
        `}
      </li>
      ${branch && html`
        <li>
          <${Icon} name="git-branch" />
          <bdi>${plain(branch)}</bdi>
        </li>
      `}
      ${model && html`
        <li title=${plain(model)}>
          <${Icon} name="cpu" />
          ${modelName(plain(model))}
        </li>
      `}
      ${review && !session.display?.label?.includes(review.label) && html`
        <li class="to-review">
          <${Icon} name="clipboard-check" />
          <bdi>to review: ${plain(review.label)}</bdi>
        </li>
      `}
      ${queue.length > 0 && html`
        <li title=${plain(queue[0].text, 300)}>
          <${Icon} name="list-plus" />
          ${queue.length.toLocaleString()} queued
        </li>
      `}
      ${report && html`
        <li class="reported" data-status=${report.status} title=${plain(report.notes ?? "")}>
          <${Icon} name=${report.status === "passed" ? "circle-check" : "triangle-alert"} />
          <bdi>reported ${plain([report.status, report.issue].filter(Boolean).join(": "))}</bdi>
        </li>
      `}
      ${isActive(session) && html`
        <li title="The latest word of any of its witnesses">
          <${Icon} name="clock" />
          <span>
            active <${Age} at=${session.updated_at} /> ago
          </span>
        </li>
      `}
      ${usage && html`<${Spent} usage=${usage} plan=${plan} />`}
      <${Gauge} session=${session} />
      ${finished > 0 && html`
        <li>
          <${Icon} name="network" />
          ${counted(finished, "child", "children")},${" "}
          ${children.some((child) => child.status === "orphaned") ? "none running" : "finished"}
        </li>
      `}
      ${incomplete && html`
        <li class="late" title=${missingOf(session, hostOf(session)?.gaps ?? [])}>
          <${Icon} name="triangle-alert" />
          incomplete
        </li>
      `}
    </ul>
  `;
}

/** So long it is to be in sight of a reader who is there. */
const LOOK_MS = 1500;
const STEP_MS = 250;
/** In sight: since when somebody looks, by this browser's steady clock. @type {Map<Element, number>} */
const inSight = new Map();
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

const watcher = new IntersectionObserver((changes) => {
  for (const { target, isIntersecting } of changes) {
    if (isIntersecting) inSight.set(target, performance.now());
    else inSight.delete(target);
  }
  keepTime();
});

function keepTime() {
  if (inSight.size > 0) timer ??= setInterval(look, STEP_MS);
  else timer = void clearInterval(timer);
}

function look() {
  const at = performance.now();
  // Whoever is elsewhere, or reads what lies over the list, sees no mark.
  if (!document.hasFocus() || document.visibilityState === "hidden" || document.querySelector("dialog[open]")) {
    for (const mark of inSight.keys()) inSight.set(mark, at);
    return;
  }
  const read = [...inSight].filter(([, since]) => at - since >= LOOK_MS).map(([mark]) => mark);
  markNoticed(read.map((mark) => /** @type {HTMLElement} */ (mark).dataset.of ?? ""));
  for (const mark of read) inSight.delete(mark);
  keepTime();
}

/** @param {{entry: Pick<Entry, "id" | "view">}} props */
export function NewMark({ entry }) {
  const unseen = useMemo(() => computed(() => !isSeen(entry.view.value)), [entry]);
  return unseen.value ? html`<${Dot} id=${entry.id} />` : null;
}

/** @param {{id: string}} props */
function Dot({ id }) {
  const dot = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const mark = /** @type {HTMLElement} */ (dot.current);
    watcher.observe(mark);
    return () => {
      watcher.unobserve(mark);
      inSight.delete(mark);
      keepTime();
    };
  }, [id]);
  return html`
    <span ref=${dot} class="new-mark" data-of=${id}>
      <span class="sr">New: </span>
    </span>
  `;
}

/** On a phone's tab. @param {{group: Group}} props */
export function TabMark({ group }) {
  const count = unreadIn[group].value;
  return (
    count > 0 && html`
      <span class="new-mark tab-new">
        <span class="sr">${count.toLocaleString()} new, </span>
      </span>
    `
  );
}

const GAP = 8;

/**
 * Pressing it shows the same at length.
 * @param {{label: string, children?: ComponentChildren, onPress: () => void}} props
 */
export function Hint({ label, children, onPress }) {
  const id = useId();
  const chip = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const tip = useRef(/** @type {HTMLElement | null} */ (null));
  const isOpen = () => tip.current?.matches(":popover-open");
  const follow = () => {
    if (isOpen() && chip.current && tip.current) place(tip.current, chip.current.getBoundingClientRect());
    else removeEventListener("scroll", follow, true);
  };
  const show = () => {
    if (isOpen()) return;
    tip.current?.showPopover();
    follow();
    // Focusing a chip below the fold scrolls to it only afterwards.
    addEventListener("scroll", follow, true);
  };
  const hide = () => isOpen() && tip.current?.hidePopover();
  /** @param {KeyboardEvent} press */
  const onKeyDown = (press) => {
    if (press.key === "Escape") hide();
  };
  const onClick = () => {
    hide();
    onPress();
  };
  // The text lies within, so that the pointer can go over to it and read, or select.
  return html`
    <span
      class="hint"
      onMouseEnter=${show}
      onMouseLeave=${hide}
      onFocusIn=${() => chip.current?.matches(":focus-visible") && show()}
      onFocusOut=${hide}
      onKeyDown=${onKeyDown}
    >
      <button ref=${chip} class="chip" aria-describedby=${id} onClick=${onClick}>
        <${Icon} name="triangle-alert" />
        ${label}
      </button>
      <span ref=${tip} id=${id} class="hint-text" role="tooltip" popover="manual">
        ${children}
      </span>
    </span>
  `;
}

/**
 * Under the chip if there is room, else above it; never outside the window.
 * @param {HTMLElement} tip
 * @param {DOMRect} chip
 */
function place(tip, chip) {
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(GAP, Math.min(chip.left, innerWidth - width - GAP));
  const below = chip.bottom + height + GAP < innerHeight;
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? chip.bottom : Math.max(GAP, chip.top - height)}px`;
}

/**
 * Its dollars, or what is used of its plan, and its tokens in the quiet line of a card.
 * @param {{usage: UsageView, plan?: PlanView}} props
 */
export function Spent({ usage, plan }) {
  const tokens = tokensOf(usage);
  const paid = plan ? planOf(plan) : costOf(usage);
  const words = [paid, tokens > 0 && `${short(tokens)} tokens`].filter(Boolean).join(" · ");
  return (
    words && html`
      <li class="spent" title=${exactUsage(usage)}>
        <${Icon} name="wallet" />
        ${words}
      </li>
    `
  );
}

/** How full its context is, while it goes on. @param {{session: SessionView}} props */
export function Gauge({ session: { context, state } }) {
  const percent = context ? fullness(context) : undefined;
  if (!context || percent === undefined || isOver(state) || state.state === "archived") return null;
  const near = nearlyFull(percent);
  return html`
    <li
      class="gauge"
      data-near=${near}
      title=${`Context: ${context.tokens.toLocaleString()} of ${context.size?.toLocaleString()} tokens`}
    >
      ${near && html`<${Icon} name="triangle-alert" />`}
      <${Bar} percent=${percent} />
      ${percent} % context<span class="sr"> full</span>
    </li>
  `;
}

// ---- its children: subagents, shells, monitors; a few of them on its card

/** @type {Record<string, {icon: string, words: string}>} */
export const CHILD_KINDS = {
  agent: { icon: "bot", words: "subagent" },
  shell: { icon: "square-terminal", words: "background shell" },
  monitor: { icon: "activity", words: "monitor" },
  workflow: { icon: "network", words: "workflow" },
  cron: { icon: "clock", words: "schedule" },
};

const ON_CARD = 4;

/** @param {ChildView} child */
export function runs(child) {
  return child.finished_at == null && child.status === "running";
}

/** Those that run first; within each, the hub's order. @param {ChildView[]} list */
export function runningFirst(list) {
  return [...list.filter(runs), ...list.filter((child) => !runs(child))];
}

/** How many there were, once none is left running. @param {ChildView[]} list */
export function finishedCount(list) {
  return list.some(runs) ? 0 : list.length;
}

/** On a card, as long as one of them runs. @param {{list: ChildView[]}} props */
export function Branches({ list }) {
  return list.some(runs) ? html`<${Tree} list=${list} />` : null;
}

/** @param {{list: ChildView[]}} props */
function Tree({ list }) {
  const more = list.length - ON_CARD;
  const running = list.filter(runs).length;
  return html`
    <ul class="children" aria-label=${`${counted(list.length, "child", "children")}, ${running} running`}>
      ${runningFirst(list)
        .slice(0, ON_CARD)
        .map((child) => html`
          <${Branch} key=${child.id} child=${child} />
        `)}
      ${more > 0 && html`<li class="child-more">and ${more.toLocaleString()} more</li>`}
    </ul>
  `;
}

/** @param {{child: ChildView}} props */
function Branch({ child }) {
  const kind = Object.hasOwn(CHILD_KINDS, child.kind)
    ? CHILD_KINDS[child.kind]
    : { icon: "circle-dashed", words: plain(child.kind) };
  return html`
    <li class="child" data-running=${runs(child)}>
      <span class="child-kind">
        <${Icon} name=${kind.icon} />
        <span class="sr">${kind.words}</span>
      </span>
      <bdi class="child-words" title=${child.description && plain(child.description)}>
        ${childName(child)}
      </bdi>
      ${child.status === "orphaned" ? html`<${Orphaned} child=${child} />` : html`<${Status} child=${child} />`}
    </li>
  `;
}

/** @param {{child: ChildView}} props */
function Status({ child }) {
  const running = runs(child);
  const at = running ? child.started_at : (child.finished_at ?? child.started_at);
  return html`
    <span class="child-status">
      ${plain(child.status)}
      ${at != null && html`
        ${" "}
        <${Age} at=${at} />
        ${!running && " ago"}
      `}
    </span>
  `;
}

/** Its end is when it was last heard. @param {{child: ChildView}} props */
function Orphaned({ child: { finished_at: at } }) {
  return html`
    <span class="child-status" title="Orphaned: how it ended is unknown">
      <${Icon} name="unplug" />
      <span class="sr">orphaned, </span>
      ${at == null ? (
        "its session ended"
      ) : html`
        no word for <${Age} at=${at} />
      `}
    </span>
  `;
}

/** @param {ChildView} child its task in words, else what it is */
export function childName({ description, type, kind }) {
  return plain(description || type || (Object.hasOwn(CHILD_KINDS, kind) ? CHILD_KINDS[kind].words : kind));
}

/** @param {string} id @param {ChildView[]} family */
export function askerOf(id, family) {
  const child = family.find((each) => each.id === id);
  return child ? childName(child) : "a subagent";
}
