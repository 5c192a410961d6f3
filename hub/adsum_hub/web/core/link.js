// @ts-check
/** The connection to the hub: opened, watched for silence, opened again, resumed where it was. And the hub's clock. */
import { computed, signal } from "../vendor/signals-core.js";
import { toLogin } from "./api.js";

/** @import { Message } from "../messages.js" */
/** @import { HubTrouble } from "../wire.js" */

/**
 * since and retryAt are milliseconds of this browser's clock. since: 0 as long as this page has not been live.
 * @typedef {object} LinkState
 * @property {"connecting" | "live" | "reconnecting" | "offline" | "refused"} phase
 * @property {number} since
 * @property {number} [retryAt]
 */

/** The hub ticks every 5 s; after this much silence the connection is a dead one, or its hub is. */
const SILENCE_MS = 11_000;
/** A whole list takes its time over a slow line, and a hub that restores one lets us wait for 20 s. */
const FIRST_MS = 30_000;
/** A frozen hub's machine still takes connections, which nobody then answers. */
const HANDSHAKE_MS = 6_000;
const DRAW_MS = 50;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;
/** So many attempts that failed in a row are no hiccup any more: say "offline". */
const OFFLINE_AFTER = 3;
const POLICY_VIOLATION = 1008;
const NOT_SIGNED_IN = 4401;

export const linkState = signal(/** @type {LinkState} */ ({ phase: "connecting", since: 0 }));

/** What the hub says keeps its list from being true, or machines from reporting to it. */
export const trouble = signal(/** @type {HubTrouble | undefined} */ (undefined));

/** What the page shows is how things were, not how they are. */
export const stale = computed(
  () => ["offline", "refused"].includes(linkState.value.phase) || Boolean(trouble.value?.blind),
);

/** @type {WebSocket | undefined} */
let socket;
/** @type {{epoch: string | null, offset: number | null}} */
let reached = { epoch: null, offset: null };
let failures = 0;
let heardAt = 0;
/** Whether this connection has brought anything. */
let greeted = false;
/** What this connection has brought and is not taken yet. @type {MessageEvent[]} */
let waiting = [];
/** @type {ReturnType<typeof setTimeout> | undefined} */
let drawing;
/** When the page was last true; 0 = never. */
let liveUntil = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let retry;
/** @type {(message: Message) => void} */
let deliver = () => {};

/** @param {(message: Message) => void} onMessage */
export function openLink(onMessage) {
  deliver = onMessage;
  connect();
  setInterval(lookForSilence, 1000);
  addEventListener("online", retryNow);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") (lookForSilence(), retryNow());
  });
}

/** Try at once instead of waiting for the next attempt; does nothing while a connection is up. */
export function retryNow() {
  if (socket) return;
  clearTimeout(retry);
  connect();
}

function connect() {
  const { early } = window;
  window.early = undefined;
  const taken = early && early.socket.readyState <= WebSocket.OPEN;
  const opened = taken ? early.socket : new WebSocket("/ws");
  socket = opened;
  heardAt = Date.now();
  greeted = false;
  waiting = taken ? early.heard : [];
  if (!taken) opened.onopen = () => opened.send(JSON.stringify({ ...reached, parts: true }));
  opened.onclose = ({ code }) => socket === opened && lose(code);
  opened.onmessage = (message) => {
    if (socket !== opened) return;
    heardAt = Date.now();
    waiting.push(message);
    if (drawing === undefined) hearAll();
  };
  hearAll();
}

/** After a part of the list time to draw it, before the next. */
function hearAll() {
  drawing = undefined;
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    if (hear(next.data)) return void (drawing = setTimeout(hearAll, DRAW_MS));
  }
}

function settle() {
  if (linkState.value.phase !== "live") linkState.value = { phase: "live", since: Date.now() };
}

/** @param {string} data @returns {unknown} whether it is a part, and more are to come */
function hear(data) {
  /** @type {Message} */
  let message;
  try {
    message = JSON.parse(data);
  } catch {
    // Not this protocol: what we hold may be wrong, so ask for all of it again.
    return startAfresh();
  }
  if (!follows(message)) return startAfresh();
  liveUntil = heardAt;
  const { type, epoch, offset } = message;
  // Until the last part has come, the whole has to be asked for anew.
  const partly = type === "snapshot" && message.more;
  reached = partly ? { epoch: null, offset: null } : { epoch, offset };
  failures = 0;
  if (type !== "deltas") trouble.value = message.trouble;
  deliver(message);
  if (partly) return true;
  greeted = true;
  settle();
}

/** Whether a message goes on from what we hold. @param {Message} message */
function follows({ type, epoch, offset }) {
  if (type === "snapshot") return true;
  if (reached.offset === null || epoch !== reached.epoch) return false;
  // A tick carries no news, so one that is ahead of us means that we have missed some.
  return type === "tick" ? offset === reached.offset : offset >= reached.offset;
}

function startAfresh() {
  reached = { epoch: null, offset: null };
  abandon();
  lose(undefined);
}

function lookForSilence() {
  const patience = socket?.readyState !== WebSocket.OPEN ? HANDSHAKE_MS : greeted ? SILENCE_MS : FIRST_MS;
  if (!socket || Date.now() - heardAt < patience) return;
  abandon();
  lose(undefined);
}

/** Closing a half-open socket can take minutes: let it go without waiting for its end. */
function abandon() {
  socket?.close();
  socket = undefined;
}

/** @param {number | undefined} code */
function lose(code) {
  socket = undefined;
  waiting = [];
  drawing = void clearTimeout(drawing);
  if (code === NOT_SIGNED_IN) toLogin();
  failures += 1;
  const wait = backOff(failures);
  const phase =
    code === POLICY_VIOLATION
      ? "refused"
      : failures > OFFLINE_AFTER
        ? "offline"
        : liveUntil
          ? "reconnecting"
          : "connecting";
  linkState.value = { phase, since: liveUntil, retryAt: Date.now() + wait };
  retry = setTimeout(connect, wait);
}

/** Doubling, with full jitter so that a hub's return does not meet all its pages at once. @param {number} attempt */
function backOff(attempt) {
  const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempt - 1));
  return 100 + Math.random() * most;
}

/** Milliseconds of the hub's clock, moved on once a second; stands still while the link is down. */
export const hubNow = signal(Date.now());
let clockOffset = 0;
let clockFrozen = true;

/** @param {number} now the hub's clock in a message that has just come */
export function setHubTime(now) {
  clockOffset = now - Date.now();
}

/**
 * @param {boolean} live while not, no age goes on growing
 * @param {number} [still] what the page is as of, if not the last message
 */
export function runClock(live, still) {
  clockFrozen = !live;
  if (live) hubNow.value = Date.now() + clockOffset;
  else if (still !== undefined) hubNow.value = still;
}

setInterval(() => {
  if (!clockFrozen) hubNow.value = Date.now() + clockOffset;
}, 1000);
