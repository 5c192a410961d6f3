// @ts-check
/** The page when the hub answers and nobody is on its roll. */
import { useEffect } from "../vendor/preact-hooks.js";
import { remembered, watchRemembered } from "../remembered.js";
import { hosts } from "../roster.js";
import { Icon, counted, html } from "./html.js";
import { Command } from "./copy.js";

export function View() {
  useEffect(watchRemembered, []);
  const count = remembered.value ?? 0;
  return html`<div class="notice">
    <span class="notice-mark"><img src="/static/icon.svg" alt="" width="44" height="44" /></span>
    ${count > 0 ? html`<${Over} count=${count} />` : html`<h2>Nobody has answered the roll call yet</h2>`}
    <p>${machinesWords()} ${count > 0 ? "A session has its card here from its next sign of life on. If it has none:" : "Three steps to the first card:"}</p>
    <ol class="steps">
      <li><h3>Let Claude Code tell Adsum what it does</h3><p>Adds hooks beside your own; shows what it would write with <code>--dry-run</code>.</p><${Command} text="adsum hooks install" /></li>
      <li><h3>Start an agent, in any project</h3><p>Its card appears here within two seconds.</p><${Command} text="claude" /></li>
      <li><h3>Add a machine, when you like</h3><p>You get one line to type there.</p><p><a class="button" href="/hosts#add">Make the line</a></p></li>
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
      <a class="button" href="/history"><${Icon} name="archive" />History</a>
      <a class="button" href="/usage"><${Icon} name="wallet" />Usage</a>
    </p>`;
}
