// @ts-check
/** The hint to install the page as an app, shown once; the same in the settings; the hint that the hub was upgraded. */
import { askToInstall, hintSeen, onIos, outdated, standalone, way } from "./state.js";
import { html, Icon } from "../ui/html.js";

const ON_IOS = "Press Share, then Add to Home Screen. Only then can it notify you.";

/** What the page has to say of itself, above its list. */
export function Offers() {
  return html`
    <${Newer} />
    <${InstallHint} />
  `;
}

/** Until it was followed or sent away. */
function InstallHint() {
  if (hintSeen.value || way.value === "no") return null;
  const asks = way.value === "ask";
  return html`
    <aside class="offer" aria-label="Install">
      <${Icon} name="smartphone" />
      <p>
        <strong>Adsum can be an app.</strong>${" "}
        ${asks ? "In a window of its own, with the number of sessions that need you on its icon." : ON_IOS}
      </p>
      ${asks && html`
        <button class="button" onClick=${askToInstall}>
          <${Icon} name="download" />
          Install
        </button>
      `}
      <button class="button" onClick=${() => (hintSeen.value = true)}>
        <${Icon} name="x" />
        Not now
      </button>
    </aside>
  `;
}

/** Always there, whatever became of the hint. */
export function InstallSettings() {
  return html`
    <section class="wish" aria-labelledby="wish-install">
      <h2 id="wish-install">App</h2>
      ${standalone.value ? html`
        <p>This is the app. Where the system allows it, its icon shows the number of sessions that need you.</p>
      ` : way.value === "ask" ? html`
        <p>In a window of its own, with the number of sessions that need you on its icon.</p>
        <button class="button" onClick=${askToInstall}>
          <${Icon} name="download" />
          Install
        </button>
      ` : html`
        <p>${elsewhere()}</p>
      `}
    </section>
  `;
}

function elsewhere() {
  if (!isSecureContext)
    return (
      "Browsers install only pages that were opened over https or on this machine itself. This one was " +
      "opened over plain http."
    );
  if (onIos) return ON_IOS;
  return (
    "Your browser has not offered to install it. Look in its menu for Install, Add to Home screen or Add " +
    "to Dock; if it is installed already, open it from there."
  );
}

/** The hub has been upgraded under an open page. */
function Newer() {
  if (!outdated.value) return null;
  return html`
    <div class="offer" role="status">
      <${Icon} name="download" />
      <p>
        <strong>The hub has been upgraded.</strong> This page is still the previous version.
      </p>
      <button class="button" onClick=${() => location.reload()}>
        <${Icon} name="refresh-cw" />
        Load the new version
      </button>
    </div>
  `;
}
