// @ts-check
/** Where a request is decided: on its card, in its session's details; and what became of what was decided. */
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { done, saying, undo } from "../core/attention.js";
import { capital, counted, exact, plain, record, visible } from "../core/format.js";
import { openSession } from "../core/navigation.js";
import { openRequests } from "../core/requests.js";
import { briefOf, editOf, fullOf, isGrave } from "./read.js";
import {
  became, decide, decidedOf, didWhat, givenOf, isFree, isReady, keyOf, leftOf, NOTHING, note, said, takeBack, watchRow,
  whyNot,
} from "./state.js";
import { Command, Part } from "../ui/controls.js";
import { Age, Code, html, Icon } from "../ui/html.js";

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { Verb } from "../core/attention.js" */
/** @import { Given, WhyNot } from "./state.js" */
/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { RequestView, SessionView } from "../wire.js" */

/** One request of one session. @typedef {{session: SessionView, request: RequestView}} Asked */

/** A second press sooner than that is the first one's echo; later than that it is another thought. */
const AGAIN_MS = { least: 500, most: 6000 };

/**
 * A button that decides, once what it decides has been in sight. grave: only at the second press.
 * missing: what the reader has to fill in first. Until then the button is disabled and shows this text. It stays
 * the same element, so that the page never replaces it under the pointer or a screen reader.
 * @param {{does: string, words: string, icon?: string, keys?: string, look?: string, grave?: boolean,
 *   option?: number, missing?: string, onDo: () => void}} props
 */
export function Do({ does, words, icon, keys, look = "", grave = false, option, missing, onDo }) {
  const pressed = useSignal(0);
  useEffect(() => {
    if (!pressed.value) return;
    const timer = setTimeout(() => (pressed.value = 0), AGAIN_MS.most);
    return () => clearTimeout(timer);
  }, [pressed.value]);
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    if (!isReady(/** @type {Element} */ (click.currentTarget).closest("[data-decide]"))) return;
    if (!grave) return onDo();
    const since = performance.now() - pressed.value;
    if (pressed.value && since < AGAIN_MS.least) return;
    if (!pressed.value) return void (pressed.value = performance.now());
    pressed.value = 0;
    onDo();
  };
  const asks = grave && pressed.value > 0;
  return html`
    <button
      type="button"
      class=${`button do ${look}`}
      data-do=${does}
      data-option=${option}
      data-again=${asks}
      title=${keys && `Key: ${keys}`}
      disabled=${missing !== undefined}
      onClick=${onClick}
    >
      ${icon && missing === undefined && html`<${Icon} name=${icon} />`}
      ${option && html`<kbd aria-hidden="true">${option}</kbd>`}
      <span>${missing ?? (asks ? `Press again: ${words.toLowerCase()}` : words)}</span>
    </button>
  `;
}

/** Watches where its buttons stand. @param {{name: string, line?: boolean, children?: ComponentChildren}} props
 *   name: a key. line: one of several, each in sight or not: all of them together may be taller than a window */
export function Row({ name, line = false, children }) {
  const row = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => watchRow(/** @type {HTMLElement} */ (row.current)), []);
  return html`
    <div ref=${row} class=${line ? "decide do-line" : "decide"} data-decide=${name}>
      ${children}
    </div>
  `;
}

/** What goes on with a request, if anything does, whoever decided it. @param {Asked} props */
export function Fate({ session, request }) {
  const given = givenOf(keyOf(session, request));
  if (given && (given.phase !== "cancelled" || !given.why)) return html`<${GivenLine} given=${given} />`;
  const other = decidedOf(session, request);
  if (!other) return null;
  return html`
    <p class="fate" role="status">
      <${Icon} name="clock" />
      <span>${didWhat(other)}: ${became(other.outcome)}.</span>
    </p>
  `;
}

/** @param {{given: Given, titled?: boolean}} props titled: with whose it is */
function GivenLine({ given, titled = false }) {
  const { key, title, words, phase, why } = given;
  const bad = NOTHING.has(phase) && phase !== "cancelled";
  const good = phase === "took_effect" || phase === "seconded";
  const icon = good ? "check" : bad || phase === "overruled" ? "triangle-alert" : "clock";
  return html`
    <p class="fate" role="status" data-phase=${phase} data-bad=${bad}>
      <${Icon} name=${icon} />
      <span>
        ${titled && html`
          <b><bdi>${title}</bdi></b>:${" "}
        `}
        ${words}: ${phase === "held" ? `sent in ${leftOf(given)} s` : became(phase)}.${why && phase !== "sent"
          ? ` ${plain(capital(why))}`
          : ""}
      </span>
      ${phase === "held" && html`
        <button type="button" class="button" data-do="undo" title="Key: z" onClick=${() => takeBack(key)}>Undo</button>
      `}
    </p>
  `;
}

/** Whether nothing more is to be pressed: it is decided, or being decided. @param {Asked} asked */
export function isDecided({ session, request }) {
  const given = givenOf(keyOf(session, request));
  return Boolean(given && !isFree(given.phase)) || decidedOf(session, request) !== undefined;
}

/** What to know before anything is allowed. @param {RequestView} request @returns {string[]} */
export function cautionsOf({ hold }) {
  const words = [];
  const { persons = 1, agreed = [], unverified = false } = hold ?? {};
  const names = agreed.length > 0 ? ` (${plain(agreed.join(", "), 200)})` : "";
  if (persons > 1) words.push(`${agreed.length} of ${persons} have allowed it${names}: it takes that many persons.`);
  if (unverified)
    words.push("Unverified: no hook or transcript shows this request. Another program may have sent it.");
  return [...words, ...(hold?.cautions ?? [])];
}

/** The tool and how its command begins, on one line: of several requests, which one was pressed.
 * @param {RequestView} request */
function nameOf(request) {
  const { main = "" } = fullOf(request);
  const command = main.trim().split(/\s+/).join(" ");
  const most = 80;
  const begin = visible(command, most) + (command.length > most ? "…" : "");
  return `${plain(request.tool ?? request.kind, 60)}${begin && ` “${begin}”`}`;
}

/** @param {Asked} asked */
export function allow({ session, request }) {
  decide(session, request, { verb: "allow", words: `Allow ${nameOf(request)}` });
}

/** @param {Asked} asked @param {{text?: string, stop?: boolean}} [more] */
export function deny({ session, request }, { text = "", stop = false } = {}) {
  const does = stop ? "Deny and stop" : "Deny";
  const words = request.kind === "plan" ? "Send the plan back" : `${does} ${nameOf(request)}`;
  const reason = text.trim();
  decide(session, request, {
    ...{ verb: "deny", undo: true, words },
    ...(reason && { text: reason }),
    ...(stop && { stop }),
  });
}

/**
 * Room to write that grows.
 * @param {{text: Signal<string>, label: string, reply?: boolean, rows?: number, most?: number}} props
 *   reply: `r` leads to it
 */
export function Area({ text, label, reply = false, rows = 1, most = 4000 }) {
  return html`
    <textarea
      class="area"
      rows=${rows}
      maxlength=${most}
      aria-label=${label}
      placeholder=${label}
      data-reply=${reply}
      value=${text.value}
      onInput=${(/** @type {InputEvent} */ e) => (text.value = /** @type {HTMLTextAreaElement} */ (e.target).value)}
    ></textarea>
  `;
}

// ---- on a card

/** What the first request of a session takes. @param {{session: SessionView}} props */
export function Card({ session }) {
  const [request] = openRequests(session);
  if (!request?.hold) return null;
  return html`<${CardRow} key=${keyOf(session, request)} session=${session} request=${request} />`;
}

/** @param {Asked} asked */
function CardRow({ session, request }) {
  const asked = { session, request };
  const name = keyOf(session, request);
  const verbs = request.hold?.verbs ?? [];
  const why = whyNot(session, request);
  const brief = briefOf(request);
  if (why) return html`<${Barred} why=${why} session=${session} short />`;
  if (isDecided(asked)) return html`<${Fate} ...${asked} />`;
  const open = () => openSession(session.id);
  const options = verbs.includes("answer") ? optionsOf(request) : undefined;
  const review = { permission: "Review", question: "Answer", plan: "Review the plan" }[request.kind] ?? "Answer";
  const cautions = cautionsOf(request);
  const allows = verbs.includes("allow") && brief && !request.hold?.unverified;
  const direct = allows || options;
  return html`
    <${Fate} ...${asked} />
    ${cautions.map((words) => html`<p key=${words} class="caution">${words}</p>`)}
    ${brief && brief.length > 0 && html`<${Fields} fields=${brief} />`}
    <${Extent} request=${request} />
    <${Row} name=${name}>
      ${options?.options.map((label, i) => html`
        <${Do}
          key=${label}
          does="answer"
          option=${i + 1}
          look="do-option"
          keys=${i < 9 ? String(i + 1) : undefined}
          words=${plain(label, 200)}
          onDo=${() =>
            decide(session, request, {
              ...{ verb: "answer", undo: true, words: `Answer “${plain(label, 60)}”` },
              answers: { [options.question]: [label] },
            })}
        />
      `)}
      ${allows && html`
        <${Do} does="allow" words="Allow" icon="check" keys="a" look="do-main" grave=${isGrave(request)}
          onDo=${() => allow(asked)} />
      `}
      ${!direct && html`
        <button type="button" class="button do do-main" data-do="open" onClick=${open}>${review}</button>
      `}
      ${verbs.includes("deny") && request.kind === "permission" && html`
        <${Do} does="deny" words="Deny" icon="x" keys="d" onDo=${() => deny(asked)} />
      `}
      ${direct && html`
        <button type="button" class="button do do-quiet" data-do="open" onClick=${open}>More</button>
      `}
    <//>
    ${allows && html`<${Swipe} name=${name} asked=${asked} />`}
  `;
}

/** One question with one answer, whose options fit a card. @param {RequestView} request */
function optionsOf(request) {
  const told = record(request.payload).questions;
  const questions = Array.isArray(told) ? told.map(record) : [];
  const [{ question, options, multiSelect } = /** @type {Record<string, unknown>} */ ({})] = questions;
  if (questions.length !== 1 || multiSelect === true || typeof question !== "string" || !Array.isArray(options))
    return undefined;
  const labels = options.map((each) => record(each).label ?? each);
  const fit = labels.every((label) => typeof label === "string" && label.trim() && label.length <= 120);
  return fit && labels.length <= 6 && question.length <= 300
    ? { question, options: /** @type {string[]} */ (labels) }
    : undefined;
}

const SWIPE = { least: 90, most: 140 };

/** A finger drawn to the right or left over the card asks to allow or deny; only the tap after it decides.
 * @param {{name: string, asked: Asked}} props */
function Swipe({ name, asked }) {
  const mark = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useSignal(/** @type {"allow" | "deny" | undefined} */ (undefined));
  useEffect(() => {
    const card = /** @type {HTMLElement} */ (mark.current?.closest(".card"));
    return followFinger(card, (way) => (drawn.value = way));
  }, []);
  useEffect(() => {
    if (!drawn.value) return;
    const timer = setTimeout(() => (drawn.value = undefined), AGAIN_MS.most);
    return () => clearTimeout(timer);
  }, [drawn.value]);
  const way = drawn.value;
  return html`
    <span ref=${mark} hidden></span>
    ${way && html`
      <div class="swiped" data-way=${way}>
        <${Row} key=${way} name=${name}>
          <${Do}
            does=${`${way}-swiped`}
            words=${way === "allow" ? "Tap to allow" : "Tap to deny"}
            icon=${way === "allow" ? "check" : "x"}
            look=${way === "allow" ? "do-main" : "do-bad"}
            grave=${way === "allow" && isGrave(asked.request)}
            onDo=${() => ((drawn.value = undefined), way === "allow" ? allow(asked) : deny(asked))}
          />
          <button type="button" class="button do do-quiet" onClick=${() => (drawn.value = undefined)}>Cancel</button>
        <//>
      </div>
    `}
  `;
}

/** @param {HTMLElement} card @param {(way: "allow" | "deny") => void} onDrawn @returns {() => void} */
function followFinger(card, onDrawn) {
  /** @type {{x: number, y: number, id: number} | undefined} */
  let from;
  const shift = (/** @type {number} */ by) => card.style.setProperty("translate", by ? `${by}px` : "none");
  /** @param {PointerEvent} at */
  const down = ({ pointerType, clientX: x, clientY: y, pointerId: id, isPrimary }) => {
    from = pointerType === "touch" && isPrimary ? { x, y, id } : undefined;
  };
  /** @param {PointerEvent} at */
  const move = ({ clientX, clientY, pointerId }) => {
    if (from?.id !== pointerId) return;
    const by = clientX - from.x;
    if (Math.abs(clientY - from.y) > Math.abs(by)) shift(0);
    else shift(Math.max(-SWIPE.most, Math.min(SWIPE.most, by)));
  };
  /** @param {PointerEvent} at */
  const up = ({ clientX, clientY, pointerId, type }) => {
    const begun = from;
    from = undefined;
    shift(0);
    if (begun?.id !== pointerId || type !== "pointerup") return;
    const by = clientX - begun.x;
    if (Math.abs(by) >= SWIPE.least && Math.abs(clientY - begun.y) < Math.abs(by) / 2)
      onDrawn(by > 0 ? "allow" : "deny");
  };
  const ways = Object.entries({ pointerdown: down, pointermove: move, pointerup: up, pointercancel: up });
  for (const [name, does] of ways) card.addEventListener(name, /** @type {EventListener} */ (does));
  card.dataset.swipes = "true";
  return () => {
    for (const [name, does] of ways) card.removeEventListener(name, /** @type {EventListener} */ (does));
    delete card.dataset.swipes;
    shift(0);
  };
}

/** So many lines and fewer are seen together with what decides. */
const SHORT = 12;

/** How long it is and how it begins, where its begin may be out of sight. @param {{request: RequestView}} props */
export function Extent({ request }) {
  const { main = "" } = fullOf(request);
  const changed = editOf(request)?.edits.flat();
  const lines = changed?.map(({ text }) => text) ?? main.replace(/\r?\n$/, "").split(/\r?\n/);
  if (lines.length <= SHORT) return null;
  const first = lines.find((line) => line.trim()) ?? "";
  return html`
    <p class="extent">
      ${counted(lines.length, "line")}; the first: <code><${Code} text=${first.slice(0, 200)} /></code>
    </p>
  `;
}

/** @param {{fields: [string, string][]}} props */
export function Fields({ fields }) {
  return html`
    <dl class="facts">
      ${fields.map(([name, text]) => html`
        <div key=${name}>
          <dt>${name}</dt>
          <dd class="raw" dir="ltr"><${Code} text=${text} /></dd>
        </div>
      `)}
    </dl>
  `;
}

/** @param {{why: WhyNot, session: SessionView, short?: boolean}} props short: without the way to its terminal */
export function Barred({ why, session, short = false }) {
  const asked = !why.passing && !why.command?.endsWith("full");
  const attach = !short && asked && /^[\w-]{1,100}$/.test(session.session_id);
  return html`
    <div class="barred">
      <p>
        <${Icon} name="terminal" />
        <span>
          ${why.words}${short && why.command && html`${" "}<code>${why.command}</code>`}
        </span>
      </p>
      ${!short && why.command && html`<${Command} text=${why.command} />`}
      ${attach && html`
        <p>${why.command ? "Or answer" : "Answer"} it at its terminal:</p>
        <${Command} text=${`adsum attach ${session.session_id.slice(0, 8)}`} />
      `}
    </div>
  `;
}

/** What was decided here and elsewhere, and what became of it. @param {{session: SessionView}} props */
export function Decisions({ session }) {
  const told = [...(session.commands ?? [])].reverse();
  if (told.length === 0) return null;
  return html`
    <${Part} part="decisions" title="Decided from elsewhere" count=${told.length}>
      <ul class="decisions">
        ${told.map((each) => html`
          <li key=${each.id} data-bad=${NOTHING.has(each.outcome) || each.outcome === "overruled"}>
            <span><bdi>${didWhat(each)}</bdi></span>
            <span>${became(each.outcome)}${each.reason && `: ${plain(each.reason, 300)}`}</span>
            <time class="age" title=${exact(each.at)}><${Age} at=${each.at} /></time>
          </li>
        `)}
      </ul>
    <//>
  `;
}

/** What was just done here, over the page. A modal sheet makes all else inert, so it has one of its own. */
export function Said() {
  if (!done.value && !saying.value) return null;
  return html`
    <div class="toasts">
      <${PutAside} />
      ${note.value && html`
        <p class="fate" role="status">
          <${Icon} name="hand" />
          <span>${note.value}</span>
        </p>
      `}
      ${said.value.map((given) => html`<${GivenLine} key=${given.key} given=${given} titled />`)}
    </div>
  `;
}

/** @type {Record<Verb, string>} */
const PUT = {
  dismiss: "dismissed until something happens there",
  archive: "archived until something happens there",
  restore: "back on the list",
};

function PutAside() {
  if (!done.value) return null;
  const { title, verb, why } = done.value;
  return html`
    <div class="put-aside" role="status" data-bad=${why !== undefined}>
      <p>
        <bdi>${title}</bdi>${" "}
        ${why === undefined ? `is ${PUT[verb]}.` : `stays as it is. ${why}`}
      </p>
      ${why === undefined && verb !== "restore" && html`<button class="button" onClick=${undo}>Undo</button>`}
    </div>
  `;
}
