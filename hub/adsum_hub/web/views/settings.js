// @ts-check
/** Settings: how the page looks, what calls you, saved views, the app, who may see this hub. */
import { DENSITIES, THEMES, density, setDensity, setTheme, theme } from "../look.js";
import { Access } from "./access.js";
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
      <div class="looks"><${Choice} legend="Theme" chosen=${theme()} options=${THEMES} words=${THEME_WORDS} onChoose=${setTheme} />
      <${Choice} legend="Density" chosen=${density()} options=${DENSITIES} words=${DENSITY_WORDS} onChoose=${setDensity} /></div>
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

/** One of a few: arrow keys change it. @param {{legend: string, chosen: string, options: readonly string[], words: Record<string, string>, onChoose: (value: any) => void}} props */
function Choice({ legend, chosen, options, words, onChoose }) {
  return html`<span aria-hidden="true">${legend}</span><fieldset class="choice"><legend class="sr">${legend}</legend>${options.map(
    (value) => html`<label key=${value}><input type="radio" name=${legend} checked=${chosen === value} onChange=${() => onChoose(value)} /><span>${words[value]}</span></label>`,
  )}</fieldset>`;
}
