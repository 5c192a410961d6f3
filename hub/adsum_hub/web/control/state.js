// @ts-check
/**
 * What is decided from this page: who may, what was given and what became of it, how long it can be taken back,
 * and whether a reader has had the time to see what they press.
 */
import { batch, computed, effect, signal, untracked } from "../vendor/signals-core.js";
import { me, sendToHub } from "../core/api.js";
import { saying } from "../core/attention.js";
import { plain } from "../core/format.js";
import { hubNow, linkState, stale } from "../core/link.js";
import { allSessions, entryOf, hostOf } from "../core/roster.js";
import { titleOf } from "../core/states.js";

/** @import { CommandView, RequestView, SessionView } from "../wire.js" */

/** What a command takes beside its verb and request. @typedef {Record<string, unknown>} Parameters */
/**
 * held: it can still be taken back. lost: nobody answered, so it may have been given all the same. The others are
 * outcomes, as the hub has them.
 * @typedef {"held" | "sending" | "given" | "failed" | "lost" | "cancelled" | "queued" | "sent" | "took_effect"
 *   | "overruled" | "too_late" | "refused" | "expired" | "withdrawn" | "awaits_second" | "seconded"
 *   | "under_way"} Phase
 */
/**
 * One decision of this page's reader. key: of what it decides. until: this browser's clock, while it is held.
 * words: what it does, for people. why: for people. command: its id, once the hub has taken it.
 * @typedef {{key: string, session: string, title: string, verb: string, words: string, body: Parameters,
 *   phase: Phase, until: number, at: number, why?: string, command?: string, settled?: number}} Given
 */

/** A decision that can wait is held for so long. */
export const UNDO_MS = 3000;
/** What a machine has not answered by then, it does not obey any more. */
const SILENT_MS = 11_000;
/** For so long the page says what became of it; of what went wrong, longer. */
const SAID_MS = 5000;
const SAID_BAD_MS = 15_000;
const SAID_SOON = new Set(["took_effect", "seconded", "cancelled"]);
const MOST = 100;
/** @type {ReadonlySet<string>} */
const OVER = new Set([
  ...["failed", "cancelled", "took_effect", "overruled"],
  ...["too_late", "refused", "expired", "withdrawn", "seconded"],
]);
/** One person's of two: said, and still open. */
const AWAITS = "awaits_second";
/** Nothing was decided, so it can be decided anew. @type {ReadonlySet<string>} */
export const NOTHING = new Set(["failed", "lost", "cancelled", "too_late", "refused", "expired", "withdrawn"]);

/** Whether it can be decided still: nothing was, or by one person of two. @param {string} phase or outcome */
export function isFree(phase) {
  return NOTHING.has(phase) || phase === AWAITS;
}

/** What this page has decided, by key; the latest last. */
const decisions = signal(/** @type {ReadonlyMap<string, Given>} */ (new Map()));
/** A sentence on a press that decided nothing. */
export const note = signal("");

/**
 * Of one request as it was shown: another binding is another request.
 * @param {SessionView} session
 * @param {RequestView} request
 */
export function keyOf({ id }, request) {
  return `${id} ${request.id} ${request.hold?.binding ?? ""}`;
}

/** command: what can be typed there. passing: it may soon be over. @typedef {{words: string, command?: string,
 *   passing?: boolean}} WhyNot */

/**
 * What keeps this reader from acting on a session, for people; nothing if nothing does.
 * @param {SessionView} session
 * @param {"approve" | "full"} needs
 * @returns {WhyNot | undefined}
 */
export function barred(session, needs = "approve") {
  const who = me.value;
  if (stale.value || linkState.value.phase !== "live")
    return { words: "This page has no live connection to its hub, so nothing can be decided here.", passing: true };
  if (session.reachability === "offline")
    return { words: "Its machine is offline: nothing that is decided here would reach it.", passing: true };
  if (who?.decides === false)
    return { words: "This hub has no sign-in, so nothing can be decided here. Restart it without ADSUM_SIGN_IN=off." };
  if (!who) return { words: "The hub has not said yet whether you may decide.", passing: true };
  if (who.role === "viewer")
    return { words: "You may look, but not decide. An admin can give you the role operator." };
  if (who.hosts?.length && !who.hosts.includes(session.host_id))
    return { words: `On ${plain(session.host)} you may look, but not decide: you are an operator of other machines.` };
  const control = hostOf(session)?.control ?? "off";
  if (control !== "full" && control !== needs) {
    const what = needs === "full" ? "sessions take no prompts" : "nothing can be decided";
    return {
      words: `On ${plain(session.host)} ${what} from elsewhere. Its owner can allow it there:`,
      command: `adsum control ${needs}`,
    };
  }
  return undefined;
}

/**
 * What keeps this reader from deciding a request.
 * @param {SessionView} session
 * @param {RequestView} request
 * @returns {WhyNot | undefined}
 */
export function whyNot(session, request) {
  const bar = barred(session);
  if (bar) return bar;
  if (!request.hold) return { words: "It can be answered at its terminal only: no hook of ours holds it." };
  if (request.hold.until <= hubNow.value) return { words: "The time to answer it from here is over." };
  return undefined;
}

/** @param {Given} given @param {Partial<Given>} change */
function put(given, change) {
  const next = { ...given, ...change };
  const all = new Map(decisions.peek());
  all.delete(given.key);
  all.set(given.key, next);
  for (const [key, { phase }] of all) if (all.size > MOST && OVER.has(phase)) all.delete(key);
  decisions.value = all;
  return next;
}

/** @param {string} key @returns {Given | undefined} what this page's reader last decided of it */
export function givenOf(key) {
  return decisions.value.get(key);
}

/**
 * Decides. What was decided already, here or elsewhere, is not decided twice.
 * @param {SessionView} session
 * @param {RequestView | undefined} request nothing: of the session itself
 * @param {{verb: string, words: string, undo?: boolean} & Parameters} wanted undo: it can wait
 * @returns {string | undefined} its key, if it is given
 */
export function decide(session, request, { verb, words, undo = false, ...parameters }) {
  const key = request ? keyOf(session, request) : `${session.id} ${verb} ${performance.now()}`;
  const before = decisions.peek().get(key);
  if (before && !isFree(before.phase)) return undefined;
  const bar = request ? whyNot(session, request) : barred(session, "full");
  if (bar) return void say(bar.words);
  const about = request && { request_id: request.id, binding: request.hold?.binding };
  const given = put(
    {
      ...{ key, session: session.id, title: titleOf(session), verb, words, at: Date.now() },
      body: { verb, ...about, ...parameters },
      ...{ phase: undo ? "held" : "sending", until: Date.now() + UNDO_MS },
    },
    {},
  );
  if (undo) setTimeout(release, UNDO_MS, given);
  else send(given);
  return key;
}

/** Between two of `extendHold`. */
export const EXTEND_MS = 4000;

/** Has a form held for some seconds more, since the reader has it before them. It decides nothing.
 * @param {SessionView} session @param {RequestView} request */
export function extendHold(session, { id, hold }) {
  const path = `/api/v1/sessions/${encodeURIComponent(session.id)}/commands`;
  void sendToHub("POST", path, { verb: "extend", request_id: id, binding: hold?.binding });
}

/** A timer's own decision: one made since has the same key. @param {Given} given @param {Phase} phase */
function stillThat({ key, body }, phase) {
  const now = decisions.peek().get(key);
  return now?.body === body && now.phase === phase ? now : undefined;
}

/** Its time to be taken back is over. @param {Given} held */
function release(held) {
  const given = stillThat(held, "held");
  if (!given) return;
  const late = Date.now() - given.until > UNDO_MS;
  const { request_id: asked, binding } = given.body;
  const request = entryOf(given.session)?.view.peek().requests?.find(({ id }) => id === asked);
  const gone = asked !== undefined && request?.hold?.binding !== binding;
  if (late || gone || linkState.peek().phase !== "live") {
    const why = gone ? "It is asked no more." : late ? "This page was asleep." : "The connection was lost meanwhile.";
    return void put(given, { phase: "cancelled", why: `${why} Nothing was sent.`, settled: Date.now() });
  }
  send(put(given, { phase: "sending" }));
}

/** @param {Given} given */
async function send(given) {
  const path = `/api/v1/sessions/${encodeURIComponent(given.session)}/commands`;
  const { body, why, status } = await sendToHub("POST", path, given.body);
  const taken = body?.command?.id;
  if (typeof taken === "string") {
    // Reports may have come before the answer.
    put(given, { phase: "given", command: taken, at: Date.now() });
    setTimeout(unanswered, SILENT_MS, given);
  } else if (status === 0) {
    const words = `${why ?? "The hub did not answer."} It may have been given all the same: look what becomes of it.`;
    put(given, { phase: "lost", why: words, settled: Date.now() });
  } else put(given, { phase: "failed", why: why ?? "The hub's answer could not be read.", settled: Date.now() });
}

/** @param {Given} asked */
function unanswered(asked) {
  const given = stillThat(asked, "given");
  if (!given) return;
  const why = "The machine did not respond in time. The decision expired and had no effect.";
  put(given, { phase: "lost", why, settled: Date.now() });
}

/** What machines report of what this page has given. */
effect(() => {
  for (const given of decisions.value.values()) {
    if (!given.command || OVER.has(given.phase)) continue;
    const told = entryOf(given.session)?.view.value.commands?.find(({ id }) => id === given.command);
    const phase = /** @type {Phase | undefined} */ (told?.outcome);
    if (!told || !phase || phase === given.phase) continue;
    const settled = OVER.has(phase) || phase === AWAITS ? Date.now() : undefined;
    untracked(() => put(given, { phase, why: told.reason ?? undefined, settled }));
  }
});

/** Takes back what is still held: one, or the latest. @param {string} [key] @returns {boolean} whether there was one */
export function takeBack(key) {
  const held = [...decisions.peek().values()].filter((each) => each.phase === "held" && (!key || each.key === key));
  const last = held.at(-1);
  if (last) put(last, { phase: "cancelled", settled: Date.now(), why: "Nothing was sent." });
  return last !== undefined;
}

/** Whoever leaves the page has not waited for what they could still take back. */
function leave() {
  batch(() => {
    for (const given of decisions.peek().values())
      if (given.phase === "held")
        put(given, { phase: "cancelled", settled: Date.now(), why: "You left the page. Nothing was sent." });
  });
}
addEventListener("pagehide", leave);
document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && leave());

/** @type {ReturnType<typeof setTimeout> | undefined} */
let hushing;

/** @param {string} words */
export function say(words) {
  clearTimeout(hushing);
  note.value = words;
  hushing = setTimeout(() => (note.value = ""), SAID_MS);
}

/** Counts four times a second while something is said. */
const tick = signal(0);
/** @type {ReturnType<typeof setInterval> | undefined} */
let ticking;

/** What is to be said now of what this page has decided: what goes on, and what has just ended. */
export const said = computed(() => {
  void tick.value;
  const now = Date.now();
  const shown = [...decisions.value.values()].filter(
    ({ phase, settled = now }) => now - settled < (SAID_SOON.has(phase) ? SAID_MS : SAID_BAD_MS),
  );
  return shown.slice(-4);
});
effect(() => {
  const some = said.value.length > 0;
  if (some) ticking ??= setInterval(() => (tick.value += 1), 250);
  else ticking = void clearInterval(ticking);
});

effect(() => void (saying.value = said.value.length > 0 || note.value !== ""));

/** Whole seconds that are left to take it back. @param {Given} given */
export function leftOf({ until }) {
  void tick.value;
  return Math.max(0, Math.ceil((until - Date.now()) / 1000));
}

/** @type {Record<string, string>} */
const BECAME = {
  held: "not sent yet",
  sending: "sending",
  given: "on its way to its machine",
  queued: "queued",
  sent: "sent to the agent; waiting for confirmation",
  took_effect: "took effect",
  awaits_second: "counted: it takes another person, who decides the same",
  seconded: "took effect, together with another person's",
  overruled: "overruled: the terminal was first",
  too_late: "too late: nothing was done",
  refused: "refused by its machine: nothing was done",
  expired: "expired: nothing was done",
  withdrawn: "withdrawn",
  failed: "not decided",
  lost: "no answer",
  cancelled: "taken back",
};

/** @param {string} phase or outcome */
export function became(phase) {
  return Object.hasOwn(BECAME, phase) ? BECAME[phase] : plain(phase.replaceAll("_", " "), 60);
}

/** @type {Record<string, string>} */
const DID = {
  allow: "allowed it",
  always: "allowed it, always",
  deny: "denied it",
  answer: "answered",
  plan: "approved the plan",
  elicit: "filled in the form",
  defer: "gave it back to the terminal",
  prompt: "sent a prompt",
  queue: "queued a prompt",
  interrupt: "interrupted it",
  suspend: "suspended it",
  resume: "resumed it",
  withdraw: "withdrew what was queued",
  move: "changed the order of the queue",
};

/** Who did what, for people. @param {CommandView} command */
export function didWhat({ verb, by }) {
  const did = Object.hasOwn(DID, verb) ? DID[verb] : `did “${plain(verb, 40)}”`;
  if (by.startsWith("rule:")) return `The rule “${plain(by.slice(5), 60)}” ${did}`;
  return `${by && by === me.value?.name ? "You" : plain(by || "Somebody", 60)} ${did}`;
}

/** The decision of a request that is under way or has been made, whoever made it. @param {SessionView} session
 * @param {RequestView} request @returns {CommandView | undefined} */
export function decidedOf({ commands = [] }, request) {
  return commands.findLast(({ request_id, outcome }) => request_id === request.id && !isFree(outcome));
}

/**
 * Sessions whose open request asks the very same, which may be allowed here too.
 * @param {SessionView} session
 * @param {RequestView} request
 * @returns {{session: SessionView, request: RequestView}[]}
 */
export function sameAsked(session, request) {
  if (request.kind !== "permission" || !request.hold?.verbs.includes("allow")) return [];
  const wanted = sameness(request);
  return allSessions().flatMap((other) => {
    if (other.id === session.id) return [];
    return (other.requests ?? [])
      .filter((each) => each.hold?.verbs.includes("allow") && sameness(each) === wanted)
      .filter((each) => !decidedOf(other, each) && !whyNot(other, each))
      .map((each) => ({ session: other, request: each }));
  });
}

/** @param {RequestView} request its tool and its whole input, whatever the order of its fields */
function sameness({ tool, payload }) {
  return JSON.stringify([tool, ordered(payload)]);
}

/** @param {unknown} value @returns {unknown} */
function ordered(value) {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([name, each]) => [name, ordered(each)]);
}

// ---- whether a reader has had the time to see what they press

/** What has stood in sight, unmoved, for so long can be pressed. */
const READY_MS = 700;
const LOOK_MS = 150;
/** Buttons in sight: since when they stand where they stand. @type {Map<HTMLElement, {since: number, top: number}>} */
const standing = new Map();
/** @type {ReturnType<typeof setInterval> | undefined} */
let looking;

const watcher = new IntersectionObserver(
  (changes) => {
    for (const { target, isIntersecting } of changes) {
      const row = /** @type {HTMLElement} */ (target);
      if (isIntersecting && !standing.has(row)) standing.set(row, { since: performance.now(), top: topOf(row) });
      if (isIntersecting) continue;
      standing.delete(row);
      row.dataset.ready = "false";
    }
    if (standing.size > 0) looking ??= setInterval(() => standing.forEach((_, row) => moved(row)), LOOK_MS);
    else looking = void clearInterval(looking);
  },
  { threshold: 0.5 },
);

/** Where it stands in the page: scrolling is the reader's own doing. @param {HTMLElement} row */
function topOf(row) {
  let top = 0;
  /** @type {Element | null} */
  let at = row;
  for (; at instanceof HTMLElement; at = at.offsetParent) top += at.offsetTop;
  return top;
}

/** Whatever came above has put it somewhere else, maybe under a finger. @param {HTMLElement} row */
function moved(row) {
  const seen = standing.get(row);
  const top = topOf(row);
  const now = performance.now();
  if (seen && seen.top !== top) standing.set(row, { since: now, top });
  row.dataset.ready = String(now - (standing.get(row)?.since ?? now) >= READY_MS);
}

/** @param {HTMLElement} row @returns {() => void} */
export function watchRow(row) {
  watcher.observe(row);
  return () => {
    watcher.unobserve(row);
    standing.delete(row);
  };
}

/** Whether its buttons may be pressed; says why not. @param {Element | null} row */
export function isReady(row) {
  if (!(row instanceof HTMLElement)) return false;
  moved(row);
  if (standing.has(row) && row.dataset.ready === "true") return true;
  say("That has only just come here, so the press decided nothing. Look at it, then press again.");
  return false;
}
