// @ts-check
/** The page as an app: the hint that is shown once, the same in the settings, and what a page without its hub knows. */
export { Command } from "./copy.js";
import { plain } from "../asks.js";
import { moment } from "../clock.js";
import { askToInstall, hintSeen, onIos, outdated, standalone, way } from "../install.js";
import { lastLive, lastLiveAt } from "../last_live.js";
import { linkState } from "../link.js";
import { known } from "../roster.js";
import { Icon, html } from "./html.js";

const ON_IOS = "Press Share, then Add to Home Screen. Only from there it can notify you.";

/** What the page has to say of itself, above its list. */
export function Offers() {
  return html`<${Newer} /><${InstallHint} />`;
}

/** Until it was followed or sent away. */
function InstallHint() {
  if (hintSeen.value || way.value === "no") return null;
  const asks = way.value === "ask";
  return html`<aside class="offer" aria-label="Install">
    <${Icon} name="smartphone" />
    <p><strong>Adsum can be an app.</strong> ${asks ? "In a window of its own, with the count of those who need you on its icon." : ON_IOS}</p>
    ${asks && html`<button class="button" onClick=${askToInstall}><${Icon} name="download" />Install</button>`}
    <button class="button" onClick=${() => (hintSeen.value = true)}><${Icon} name="x" />Not now</button>
  </aside>`;
}

/** Always there, whatever became of the hint. */
export function InstallSettings() {
  return html`<section class="wish" aria-labelledby="wish-install">
    <h2 id="wish-install">App</h2>
    ${standalone.value
      ? html`<p>This is the app. Its icon bears the count of those who need you where the system shows one.</p>`
      : way.value === "ask"
        ? html`<p>In a window of its own, with the count of those who need you on its icon.</p><button class="button" onClick=${askToInstall}><${Icon} name="download" />Install</button>`
        : html`<p>${elsewhere()}</p>`}
  </section>`;
}

function elsewhere() {
  if (!isSecureContext) return "Browsers install only pages that were opened over https or on this machine itself. This one was opened over plain http.";
  if (onIos) return ON_IOS;
  return "Your browser has not offered to install it. Look in its menu for Install, Add to Home screen or Add to Dock; if it is installed already, open it from there.";
}

/** The hub has been upgraded under an open page. */
function Newer() {
  if (!outdated.value) return null;
  return html`<div class="offer" role="status">
    <${Icon} name="download" />
    <p><strong>The hub has been upgraded.</strong> This page is still the old one.</p>
    <button class="button" onClick=${() => location.reload()}><${Icon} name="refresh-cw" />Load the new one</button>
  </div>`;
}

/** Beside the word that nobody answers: how long that may have been so. */
export function LastLive() {
  const { needs_you: needing, autonomous, delivered } = lastLive.value;
  const at = lastLiveAt();
  if (!at) return null;
  const counts = [[needing, "needed you"], [autonomous, "worked"], [delivered, "had delivered"]];
  const words = counts.filter(([count]) => Number(count) > 0).map(([count, of]) => `${plain(count)} ${of}`);
  return html`<p class="last-live quiet">This browser last saw it live at <time datetime=${new Date(at).toISOString()}>${moment(at)}</time>. ${words.length > 0 ? `Then ${words.join(", ")}.` : "Nobody was at work then."}</p>`;
}

/** The same beside an error of a view, where nothing has come since the page was opened. */
export function SinceWhen() {
  return known.value || linkState.value.phase === "live" ? null : html`<${LastLive} />`;
}
