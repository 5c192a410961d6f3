// @ts-check
/** The page's root: opens the link, feeds the roster, draws. */
import { h, options, render } from "./vendor/preact.js";
import { effect } from "./vendor/signals-core.js";
import { followAddress } from "./address.js";
import { showAttention } from "./attention.js";
import { runClock, setHubTime } from "./clock.js";
import { learnMe } from "./fetching.js";
import { followKeys } from "./keys.js";
import { linkState, openLink, trouble } from "./link.js";
import { followLook } from "./look.js";
import { applyDeltas, applySnapshot } from "./roster.js";
import { watchToday } from "./today.js";
import { Page } from "./views/page.js";

/** @import { Message } from "./messages.js" */

/** Nobody is called before the page has come. */
const ALERTS_MS = 1000;

/** @param {Message} message */
function hear(message) {
  setHubTime(message.now);
  if (message.type === "snapshot") applySnapshot(message);
  if (message.type === "deltas") applyDeltas(message);
}

// One drawing a frame, however many messages come; none while nobody looks.
options.debounceRendering = requestAnimationFrame;
followAddress();
followLook();
followKeys();
showAttention();
effect(() => {
  const still = trouble.value?.blind ? trouble.value.since : undefined;
  runClock(linkState.value.phase === "live" && still === undefined, still);
});
openLink(hear);
render(h(Page, {}), /** @type {HTMLElement} */ (document.getElementById("app")));
watchToday();
learnMe();
// Nothing of these is drawn with the first look.
import("./install.js").then(({ becomeApp }) => becomeApp());
setTimeout(() => import("./alerts.js").then(({ watchNeeds }) => watchNeeds()), ALERTS_MS);
