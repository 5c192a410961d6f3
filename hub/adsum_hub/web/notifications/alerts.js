// @ts-check
/** While the page is open: a desktop notification and a soft tone when a session begins to need you. */
import { effect, untracked } from "../vendor/signals-core.js";
import { plain } from "../core/format.js";
import { stale } from "../core/link.js";
import { storedSignal } from "../core/preferences.js";
import { here, whole } from "../core/roster.js";
import { pathTo, sessionPath } from "../core/routes.js";
import { isNew, labelOf } from "../core/states.js";

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
  if ("Notification" in window && Notification.permission === "granted")
    import("./push.js").then(({ keepPush }) => keepPush());
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
  const one = fresh.length === 1;
  const words = [plain(title ?? "", LONGEST), plain(host, LONGEST)].filter(Boolean).join(" \u00b7 ");
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
