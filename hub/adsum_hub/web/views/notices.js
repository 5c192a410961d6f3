// @ts-check
/** The page when there is no roster to show: calling, unreachable, empty; and the stale banner. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { openPanel } from "../address.js";
import { plain } from "../asks.js";
import { moment } from "../clock.js";
import { linkState, retryNow, trouble } from "../link.js";
import { remembered, watchRemembered } from "../remembered.js";
import { hosts } from "../roster.js";
import { Icon, counted, html } from "./html.js";

export function Loading() {
  return html`<div class="loading" aria-busy="true">
    <p class="sr">Calling the roll</p>
    ${[3, 2, 1].map((cards) => html`<div class="ghost-column" key=${cards}>${Array.from({ length: cards }, (_, i) => html`<div class="ghost" key=${i}></div>`)}</div>`)}
  </div>`;
}

/** The hub has never answered since this page was opened. */
export function Unreachable() {
  const refused = linkState.value.phase === "refused";
  return html`<div class="notice" role="alert">
    <span class="notice-mark" data-bad><${Icon} name="wifi-off" /></span>
    <h2>${refused ? "The hub refuses this address" : "No answer from the hub"}</h2>
    ${refused
      ? html`<p>It speaks only to pages opened at its own address, and this one is at <code>${location.origin}</code>. Open the address that <code>adsum up</code> printed.</p>`
      : html`<p>Nothing answers at <code>${location.origin}</code>. Your agents are not affected: what they do is kept on their machines and will be here once the hub runs.</p>
          <${Command} text="adsum up" />`}
    <${Retry} />
  </div>`;
}

/** @param {{at: number}} props */
function Moment({ at }) {
  return html`<time datetime=${new Date(at).toISOString()}>${moment(at)}</time>`;
}

/** The hub's own trouble; goes when the hub says that it is over. */
function Trouble() {
  if (!trouble.value) return null;
  const { problem, since, blind = false } = trouble.value;
  return html`<div class="banner" role="alert" data-mild=${!blind}>
    <${Icon} name=${blind ? "unplug" : "triangle-alert"} />
    <p><strong>${blind ? "The list stands still" : "Trouble"} since <${Moment} at=${since} />.</strong> ${plain(problem)}</p>
  </div>`;
}

/** What stands below is old, or will be. */
export function StaleBanner() {
  const { phase, since } = linkState.value;
  if (phase !== "offline" && phase !== "refused") return html`<${Trouble} />`;
  return html`<div class="banner" role="alert">
    <${Icon} name="wifi-off" />
    <p><strong>Not live.</strong> This is how things stood at <${Moment} at=${since} />. ${phase === "refused" ? "The hub refuses this page's address." : "The hub does not answer; nothing is lost meanwhile."}</p>
    <${Retry} />
  </div>`;
}

function Retry() {
  return html`<button class="button" onClick=${retryNow}><${Icon} name="refresh-cw" />Try now</button>`;
}

/** The hub answers, and nobody is on its roll. */
export function Empty() {
  useEffect(watchRemembered, []);
  const count = remembered.value ?? 0;
  return html`<div class="notice">
    <span class="notice-mark"><img src="/static/icon.svg" alt="" width="44" height="44" /></span>
    ${count > 0 ? html`<${Over} count=${count} />` : html`<h2>Nobody has answered the roll call yet</h2>`}
    <p>${machinesWords()} ${count > 0 ? "A session has its card here from its next sign of life on. If it has none:" : "Three steps to the first card:"}</p>
    <ol class="steps">
      <li><h3>Let Claude Code tell Adsum what it does</h3><p>Adds hooks beside your own; shows what it would write with <code>--dry-run</code>.</p><${Command} text="adsum hooks install" /></li>
      <li><h3>Start an agent, in any project</h3><p>Its card appears here within two seconds.</p><${Command} text="claude" /></li>
      <li><h3>Add a machine, when you like</h3><p>Hub and collectors then share a Redis both can reach: the README says how, under <em>Over several machines</em>.</p></li>
    </ol>
  </div>`;
}

function machinesWords() {
  const machines = hosts.value.length;
  if (machines === 0) return "The hub is ready, but no machine reports to it.";
  const report = `${counted(machines, "machine reports", "machines report")} to this hub`;
  return remembered.value ? `${report}.` : `${report}, and no agent has run there so far.`;
}

/** The way to what was. @param {{count: number}} props */
function Over({ count }) {
  return html`<h2>Nobody is at work</h2>
    <p>${counted(count, "session is", "sessions are")} in the history.</p>
    <p class="ways">
      <button class="button" aria-haspopup="dialog" onClick=${() => openPanel("history")}><${Icon} name="archive" />History</button>
      <button class="button" aria-haspopup="dialog" onClick=${() => openPanel("usage")}><${Icon} name="wallet" />Usage</button>
    </p>`;
}

/** @param {{text: string}} props */
export function Command({ text }) {
  const copied = useSignal(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    copied.value = true;
    setTimeout(() => (copied.value = false), 2000);
  };
  // Browsers give the clipboard only to https and loopback.
  return html`<p class="command"><code>${text}</code>${navigator.clipboard && html`<button class="copy" onClick=${copy} aria-label=${`Copy: ${text}`}><${Icon} name=${copied.value ? "check" : "copy"} /><span role="status">${copied.value ? "Copied" : ""}</span></button>`}</p>`;
}
