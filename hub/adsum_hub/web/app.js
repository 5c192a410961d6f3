// @ts-check
/** Starts the page: opens the link to the hub, feeds the roster, draws. */
import { h, options, render } from "./vendor/preact.js";
import { effect } from "./vendor/signals-core.js";
import { fetchMe } from "./core/api.js";
import { showAttention } from "./core/attention.js";
import { linkState, openLink, runClock, setHubTime, trouble } from "./core/link.js";
import { followAddress } from "./core/navigation.js";
import { applyAppearance } from "./core/preferences.js";
import { applyDeltas, applySnapshot } from "./core/roster.js";
import { Page } from "./frame/page.js";
import { followKeys } from "./keyboard/keys.js";

/** @import { Message } from "./messages.js" */

/** Nobody is called before the page has come. */
const ALERTS_MS = 1000;

/** @param {Message} message */
function receive(message) {
  setHubTime(message.now);
  if (message.type === "snapshot") applySnapshot(message);
  if (message.type === "deltas") applyDeltas(message);
}

// One drawing a frame, however many messages come; none while nobody looks.
options.debounceRendering = requestAnimationFrame;
followAddress();
applyAppearance();
followKeys();
showAttention();
effect(() => {
  const still = trouble.value?.blind ? trouble.value.since : undefined;
  runClock(linkState.value.phase === "live" && still === undefined, still);
});
openLink(receive);
render(h(Page, {}), /** @type {HTMLElement} */ (document.getElementById("app")));
fetchMe();
// Nothing of these is drawn with the first look.
import("./install/state.js").then(({ becomeApp }) => becomeApp());
setTimeout(() => import("./notifications/state.js").then(({ watchNeeds }) => watchNeeds()), ALERTS_MS);
