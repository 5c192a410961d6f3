// @ts-check
/** Push notifications to this browser: whether it can take them, whether it does, how to turn them on or off. */
import { signal } from "../vendor/signals-core.js";
import { askHub, sendToHub, signingOut, toLogin } from "../core/api.js";
import { onIos, standalone } from "../install/state.js";

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
  try {
    const { pushManager } = await ready();
    const old = await pushManager.getSubscription();
    if (old && !isMadeWith(old, key)) await forget(old);
    found = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  } catch (error) {
    return inWords(error);
  }
  const { why } = await sendToHub("POST", SUBSCRIPTIONS, found.toJSON());
  // The hub would never write to it, and the settings would say that it does.
  if (why) await found.unsubscribe();
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
