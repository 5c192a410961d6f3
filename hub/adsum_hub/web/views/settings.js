// @ts-check
/** Settings: how the page looks, what calls you, saved views, the app, who may see this hub. */
import { DENSITIES, THEMES, density, setDensity, setTheme, theme } from "../look.js";
import { Access } from "./access.js";
import { Choice } from "./choice.js";
import { html } from "./html.js";
import { Lazy } from "./lazy.js";
import { SavedViews } from "./saved.js";

const THEME_WORDS = { system: "As the system", light: "Light", dark: "Dark" };
const DENSITY_WORDS = { comfortable: "Comfortable", compact: "Compact" };

export function View() {
  return html`<section class="view settings" data-name="settings" aria-labelledby="view-title">
    <h2 id="view-title">Settings</h2>
    <p class="quiet">Look, alerts and saved views are this browser's own. What the hub itself does stands in its configuration.</p>
    <section class="wish" aria-labelledby="wish-look">
      <h2 id="wish-look">Look</h2>
      <div class="looks"><span aria-hidden="true">Theme</span><${Choice} name="theme" legend="Theme" chosen=${theme()} options=${THEMES.map((each) => [each, THEME_WORDS[each]])} onChoose=${setTheme} />
      <span aria-hidden="true">Density</span><${Choice} name="density" legend="Density" chosen=${density()} options=${DENSITIES.map((each) => [each, DENSITY_WORDS[each]])} onChoose=${setDensity} /></div>
    </section>
    <${Lazy} name="settings_notify" part="NotifySettings" quiet />
    <section class="wish" aria-labelledby="wish-saved"><h2 id="wish-saved">Saved views</h2><${SavedViews} /></section>
    <${Lazy} name="install" part="InstallSettings" quiet />
    <${Access} />
    <section class="wish" aria-labelledby="wish-help">
      <h2 id="wish-help">Help</h2>
      <p>Press <kbd>?</kbd> anywhere for the keys, <kbd>Ctrl</kbd> <kbd>K</kbd> for everything by name.</p>
    </section>
  </section>`;
}
