// @ts-check
/** The page as an app: its worker, whether it can be installed, whether the hub has a newer one. */
import { computed, effect, signal, untracked } from "../vendor/signals-core.js";
import { linkState } from "../core/link.js";
import { go, offered } from "../core/navigation.js";
import { storedSignal } from "../core/preferences.js";
import { rememberLastLive } from "../core/roster.js";

/** It fetches every file of the page, and what is drawn first goes first. */
const REST_MS = 1000;
/** The browser's own question, kept until somebody wants to be asked. */
const question = signal(/** @type {any} */ (undefined));

/** Opened from the home screen or the dock, so there is nothing more to install. */
export const standalone = signal(
  matchMedia("(display-mode: standalone)").matches || /** @type {any} */ (navigator).standalone === true,
);

/** iPhones and iPads: no browser there asks, and pushes come only to what is on the home screen. */
export const onIos = "standalone" in navigator && navigator.maxTouchPoints > 1;

/**
 * How this browser installs it, if it does.
 * @type {import("../vendor/signals-core.js").ReadonlySignal<"no" | "ask" | "share_menu">}
 */
export const way = computed(() => (standalone.value ? "no" : question.value ? "ask" : onIos ? "share_menu" : "no"));

/** The hint is shown once; in the settings it stays. */
export const hintSeen = storedSignal("installHintSeen", false);

/** The hub has a newer page than the one that runs. */
export const outdated = signal(false);
/** What the hub wrote into the page; nothing where it was not the hub that served it. */
const VERSION = document.documentElement.dataset.version;

export async function askToInstall() {
  const asked = question.value;
  question.value = undefined; // it can be asked but once
  hintSeen.value = true;
  await asked?.prompt();
}

/** To be called once, as early as can be: the browser's question does not come twice. */
export function becomeApp() {
  addEventListener("beforeinstallprompt", (event) => {
    event.preventDefault();
    question.value = event;
  });
  addEventListener("appinstalled", () => {
    question.value = undefined;
    standalone.value = true;
  });
  rememberLastLive();
  listenToWorker();
  // A hub that comes back may have been upgraded meanwhile.
  effect(() => {
    if (linkState.value.phase === "live") untracked(lookForNewer);
  });
  effect(() => void (offered.value = outdated.value || (way.value !== "no" && !hintSeen.value)));
  document.addEventListener("visibilitychange", loadNewerUnseen);
}

/** Only https and loopback have it. */
function listenToWorker() {
  navigator.serviceWorker?.addEventListener("message", ({ data }) => {
    if (typeof data?.go === "string") go(data.go);
  });
  const end = effect(() => {
    if (linkState.value.phase !== "live") return;
    queueMicrotask(() => end());
    setTimeout(registerWorker, REST_MS);
  });
}

function registerWorker() {
  navigator.serviceWorker?.register("/sw.js").catch(() => {
    // Without it the page is as it was: alive while the hub is, and without pushes.
  });
}

async function lookForNewer() {
  if (!VERSION || outdated.value) return;
  try {
    const answer = await fetch("/", { method: "HEAD", cache: "no-store" });
    const newest = answer.headers.get("x-adsum-page");
    outdated.value = answer.ok && newest !== null && newest !== VERSION;
  } catch {
    return; // asked again with the next connection
  }
  if (!outdated.value) return;
  (await navigator.serviceWorker?.getRegistration())?.update().catch(() => {});
  loadNewerUnseen();
}

/** Nobody's words are thrown away, and hubs of two versions behind one address do not play ball with it. */
function loadNewerUnseen() {
  if (!outdated.value || document.visibilityState === "visible" || document.querySelector("textarea, dialog[open]"))
    return;
  const done = `adsum.reloaded.${VERSION}`;
  if (sessionStorage.getItem(done)) return;
  sessionStorage.setItem(done, "1");
  location.reload();
}
