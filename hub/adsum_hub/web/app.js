// @ts-check
/** The page's root: opens the link, feeds the roster, draws. */
import { h, options, render } from "./vendor/preact.js";
import { effect } from "./vendor/signals-core.js";
import { showAttention } from "./attention.js";
import { runClock, setHubTime } from "./clock.js";
import { linkState, openLink } from "./link.js";
import { applyDeltas, applySnapshot, query } from "./roster.js";
import { Page } from "./views/page.js";

/** @import { Message } from "./wire.js" */

/** @param {Message} message */
function hear(message) {
  setHubTime(message.now);
  if (message.type === "snapshot") applySnapshot(message);
  if (message.type === "deltas") applyDeltas(message);
}

function keepQueryInAddress() {
  query.value = new URLSearchParams(location.search).get("q") ?? "";
  effect(() => {
    const address = new URL(location.href);
    if (query.value) address.searchParams.set("q", query.value);
    else address.searchParams.delete("q");
    if (address.href !== location.href) history.replaceState(null, "", address);
  });
}

// One drawing a frame, however many messages come; none while nobody looks.
options.debounceRendering = requestAnimationFrame;
keepQueryInAddress();
showAttention();
effect(() => runClock(linkState.value.phase === "live"));
render(h(Page, {}), /** @type {HTMLElement} */ (document.getElementById("app")));
openLink(hear);
