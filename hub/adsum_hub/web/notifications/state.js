// @ts-check
/** What calls somebody: while the page is open a tone and a desktop notification, pushes to this browser. */
import { effect, signal, untracked } from "../vendor/signals-core.js";
import { askHub, sendToHub, signingOut, toLogin } from "../core/api.js";
import { plain } from "../core/format.js";
import { stale } from "../core/link.js";
import { storedSignal } from "../core/preferences.js";
import { here, otherAgent, whole } from "../core/roster.js";
import { pathTo, sessionPath } from "../core/routes.js";
import { isNew, labelOf } from "../core/states.js";
import { onIos, standalone } from "../install/state.js";

/** @import { Entry } from "../core/roster.js" */

/** A need that is met at once, at its own terminal, is none to call anybody for. */
const STANDS_MS = 2000;
const LONGEST = 120;

/** Off until somebody wants it; only while the page is hidden. */
export const desktop = storedSignal("desktop", false);

/** @typedef {"off" | "hidden" | "always"} When */
export const sound = storedSignal("sound", /** @type {string} */ ("off"));
/** Who was there already, or has been told of. @type {Set<string>} */
let met = new Set();
let begun = false;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {AudioContext | undefined} */
let audio;

/** To be called once. */
export function watchNeeds() {
  effect(() => {
    const entries = here.needs_you.value;
    if (whole.value) meet(entries);
  });
  effect(() => {
    if (whole.value) untracked(clearOld);
  });
  document.addEventListener("visibilitychange", clearOld);
  // Whoever takes no pushes needs nothing of them.
  if ("Notification" in window && Notification.permission === "granted") keepPush();
}

/** @param {Entry[]} entries */
function meet(entries) {
  const ids = new Set(entries.map(({ id }) => id));
  met = begun ? new Set([...met].filter((id) => ids.has(id))) : ids;
  begun = true;
  if (timer === undefined && ids.size > met.size) timer = setTimeout(callThem, STANDS_MS);
}

/** Other windows of this browser that show the same. */
const windows = new BroadcastChannel("adsum.windows");
const ANSWER_MS = 300;
/** Of windows that all wait to call, one does. */
const TONE_MS = 4000;
/** @type {(() => void) | undefined} */
let lookedAt;

windows.onmessage = ({ data }) => {
  if (data === "who looks?" && document.visibilityState === "visible") windows.postMessage("here");
  if (data === "here") lookedAt?.();
};

/** Whether this window is hidden, and every other of this browser. @returns {Promise<boolean>} */
async function nobodyLooks() {
  if (document.visibilityState === "visible") return false;
  const seen = new Promise((tell) => (lookedAt = () => tell(false)));
  windows.postMessage("who looks?");
  return /** @type {Promise<boolean>} */ (
    Promise.race([seen, new Promise((tell) => setTimeout(tell, ANSWER_MS, true))])
  );
}

/** In one window alone, of those that may. Locks there are under https and on loopback. */
function playOnce() {
  if (!navigator.locks || !navigator.userActivation?.hasBeenActive) return playTone();
  navigator.locks.request("adsum.tone", { ifAvailable: true }, (lock) => {
    if (!lock) return;
    playTone();
    return new Promise((over) => setTimeout(over, TONE_MS));
  });
}

async function callThem() {
  timer = undefined;
  const arrived = here.needs_you.value.filter(({ id }) => !met.has(id));
  for (const { id } of arrived) met.add(id);
  const fresh = arrived.filter(({ view }) => !isNew(view.peek().state));
  if (fresh.length === 0) return;
  const hidden = await nobodyLooks();
  if (sound.value === "always" || (sound.value === "hidden" && hidden)) playOnce();
  if (desktop.value && hidden) show(fresh);
}

/** @param {Entry[]} fresh in order of urgency */
async function show(fresh) {
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  const registration = await navigator.serviceWorker?.getRegistration();
  // The push of the same need would be the second word about it.
  if (!registration || (await registration.pushManager?.getSubscription())) return;
  const [{ id, view }] = fresh;
  const { state, title, host } = view.peek();
  const agent = otherAgent(view.peek());
  const one = fresh.length === 1;
  const words = [plain(title ?? "", LONGEST), agent, plain(host, LONGEST)].filter(Boolean).join(" \u00b7 ");
  const options = {
    body: one ? words : `${plain(labelOf(state), LONGEST)}: ${words}`,
    icon: "/static/icon-192.png",
    // Of several windows that show the same, each replaces the last one's.
    tag: one ? `here ${id}` : "here",
    data: { id: one ? id : undefined, kind: "here", path: one ? sessionPath(id) : pathTo("board") },
  };
  await registration.showNotification(
    one ? plain(labelOf(state), LONGEST) : `${fresh.length} agents need you`,
    options,
  );
}

/** Who looks at the page needs no notification of what it shows, nor of what is over. */
async function clearOld() {
  if (!whole.value || stale.value || document.visibilityState === "hidden") return;
  const registration = await navigator.serviceWorker?.getRegistration();
  const waiting = new Set(here.needs_you.value.map(({ id }) => id));
  for (const each of (await registration?.getNotifications()) ?? []) {
    const { id, kind } = each.data ?? {};
    if (["needs_you", "digest", "here"].includes(kind) && !waiting.has(id)) each.close();
  }
}

/** Two soft notes, made here: no file, no licence. Browsers play nothing before the first click on the page. */
export function playTone() {
  audio ??= new AudioContext();
  const { currentTime: now, destination } = audio;
  audio.resume();
  for (const [at, pitch] of [
    [0, 587.33],
    [0.16, 880],
  ]) {
    const note = audio.createOscillator();
    const volume = audio.createGain();
    note.frequency.value = pitch;
    volume.gain.setValueAtTime(0, now + at);
    volume.gain.linearRampToValueAtTime(0.12, now + at + 0.02);
    volume.gain.exponentialRampToValueAtTime(0.0001, now + at + 0.5);
    note.connect(volume).connect(destination);
    note.start(now + at);
    note.stop(now + at + 0.55);
  }
}

// ---- pushes to this browser: whether it can take them, whether it does, how to turn them on or off

/**
 * insecure: pages over plain http have no push. home_screen: on iOS only what lies there has. denied: the
 * browser keeps us from asking.
 * @typedef {"unknown" | "unsupported" | "insecure" | "home_screen" | "denied" | "off" | "on"} PushState
 */

/**
 * What the hub says of itself.
 * @typedef {{public_key: string | null, problem: string | null, contact: boolean}} Keys
 */

const STATUS = "/api/v1/notify";
const SUBSCRIPTIONS = "/api/v1/notify/subscriptions";
const WORKER_MS = 10_000;

export const push = signal(/** @type {PushState} */ ("unknown"));

/** @returns {PushState} what keeps this browser from it whatever anybody does; else `unknown` */
function obstacle() {
  if (!isSecureContext) return "insecure";
  if (onIos && !standalone.value) return "home_screen";
  return navigator.serviceWorker && "PushManager" in window && "Notification" in window ? "unknown" : "unsupported";
}

/** @returns {Promise<PushSubscription | null | undefined>} */
async function subscribed() {
  return (await navigator.serviceWorker?.getRegistration())?.pushManager.getSubscription();
}

export async function lookAtPush() {
  const why = obstacle();
  if (why !== "unknown") return (push.value = why);
  if (Notification.permission === "denied") return (push.value = "denied");
  return (push.value = Notification.permission === "granted" && (await subscribed()) ? "on" : "off");
}

/** The hub may have another key by now, or have lost the address: told anew, it knows it. @returns {Promise<void>} */
export async function keepPush() {
  if ((await lookAtPush()) !== "on") return;
  const { body } = await askHub(STATUS, new AbortController().signal);
  if (body?.public_key) await subscribe(body.public_key);
}

/**
 * To be called by a human's click, or the browser does not ask.
 * @param {Keys} keys
 * @returns {Promise<string | undefined>} what went wrong
 */
export async function turnOn({ public_key: key, problem }) {
  if (!key) return problem ?? "The hub has no key for push notifications.";
  if ((await Notification.requestPermission()) !== "granted") {
    await lookAtPush();
    return push.value === "denied" ? undefined : "Notifications were not allowed, so none are sent.";
  }
  const why = await subscribe(key);
  await lookAtPush();
  return why;
}

/** @param {string} key the hub's public key @returns {Promise<string | undefined>} what went wrong */
async function subscribe(key) {
  /** @type {PushSubscription} */
  let found;
  /** @type {PushSubscription | null} */
  let old;
  try {
    const { pushManager } = await ready();
    old = await pushManager.getSubscription();
    if (old && !isMadeWith(old, key)) {
      await forget(old);
      old = null;
    }
    found = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  } catch (error) {
    return inWords(error);
  }
  const { why } = await sendToHub("POST", SUBSCRIPTIONS, found.toJSON());
  // The hub would never write to it, and the settings would say that it does. One that was there before stays: the hub
  // may know it, and was only not to be reached as the page was loaded.
  if (why && !old) await found.unsubscribe();
  return why;
}

/** @returns {Promise<string | undefined>} what went wrong */
export async function turnOff() {
  const found = await subscribed();
  const why = found ? await forget(found) : undefined;
  await lookAtPush();
  return why;
}

/** Here first: what the hub still sends to it then comes back as gone. @param {PushSubscription} found */
async function forget(found) {
  await found.unsubscribe();
  return (await sendToHub("DELETE", SUBSCRIPTIONS, { endpoint: found.endpoint })).why;
}

/** @returns {Promise<ServiceWorkerRegistration>} */
async function ready() {
  const late = new Promise((_, reject) => setTimeout(reject, WORKER_MS, new Error("worker")));
  return Promise.race([navigator.serviceWorker.ready, /** @type {Promise<never>} */ (late)]);
}

/** @param {PushSubscription} found @param {string} key as base64url */
function isMadeWith(found, key) {
  const raw = new Uint8Array(found.options.applicationServerKey ?? new ArrayBuffer(0));
  const text = btoa(String.fromCharCode(...raw))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
  return text === key;
}

/** @param {unknown} error */
function inWords(error) {
  const { name = "", message = "" } = error instanceof Error ? error : {};
  if (message === "worker") return "The page's service worker did not start. Reload the page and try again.";
  if (name === "NotAllowedError") return "This browser does not allow it here. Private windows never do.";
  if (name === "AbortError")
    return (
      "This browser could not reach its push service. A firewall may be in the way; Brave has a setting for" +
      " it, under Privacy and security."
    );
  return `This browser could not subscribe (${name || "unknown"}).`;
}

/** How to undo a refusal: no page can. @returns {string} */
export function wayBack() {
  const agent = navigator.userAgent;
  if (onIos) return "On this device: Settings, Notifications, Adsum, then allow them.";
  if (agent.includes("Firefox/"))
    return (
      "In Firefox: press the crossed-out balloon left of the address and take the block away; or Settings, " +
      "Privacy and Security, Permissions, Notifications."
    );
  if (agent.includes("Edg/"))
    return "In Edge: press the lock left of the address, then Permissions for this site, Notifications, Allow.";
  if (agent.includes("Chrome/"))
    return "In Chrome: press the icon left of the address, then Site settings or Permissions, Notifications, Allow.";
  if (agent.includes("Safari/"))
    return "In Safari: Settings, Websites, Notifications, then Allow for this address.";
  return "In your browser's settings for this site: allow notifications.";
}

/** @returns {Promise<string | undefined>} what kept it from being done, in words for people */
export async function signOut() {
  // Nothing of pushes may keep anybody from leaving.
  await turnOff().catch(() => {});
  // The link may learn of it first.
  signingOut(true);
  const { why } = await sendToHub("POST", "/api/v1/logout");
  if (why === undefined) toLogin();
  else signingOut(false);
  return why;
}
