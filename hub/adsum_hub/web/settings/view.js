// @ts-check
/** Settings: appearance, notifications, saved views, the app, who may see this hub. */
import { DENSITIES, density, setDensity, setTheme, theme, THEMES } from "../core/preferences.js";
import { Access } from "./access.js";
import { Choice } from "../ui/controls.js";
import { html } from "../ui/html.js";
import { lazy } from "../ui/lazy.js";

const Notifications = lazy(() => import("../notifications/view.js"), "notifications/notifications");
const Install = lazy(() => import("../install/view.js"), "install/install");
const Filter = lazy(() => import("../filter/view.js"), "filter/filter", "ui/sheet");

const THEME_WORDS = { system: "As the system", light: "Light", dark: "Dark" };
const DENSITY_WORDS = { comfortable: "Comfortable", compact: "Compact" };

export function View() {
  return html`
    <section class="view settings" data-name="settings" aria-labelledby="view-title">
      <h2 id="view-title">Settings</h2>
      <p class="quiet">
        Appearance, alerts and saved views apply to this browser. The hub itself is set up in its configuration.
      </p>
      <section class="wish" aria-labelledby="wish-look">
        <h2 id="wish-look">Appearance</h2>
        <div class="looks">
          <span aria-hidden="true">Theme</span>
          <${Choice}
            name="theme"
            legend="Theme"
            chosen=${theme()}
            options=${THEMES.map((each) => [each, THEME_WORDS[each]])}
            onChoose=${setTheme}
          />
          <span aria-hidden="true">Density</span>
          <${Choice}
            name="density"
            legend="Density"
            chosen=${density()}
            options=${DENSITIES.map((each) => [each, DENSITY_WORDS[each]])}
            onChoose=${setDensity}
          />
        </div>
      </section>
      <${Notifications} quiet />
      <section class="wish" aria-labelledby="wish-saved">
        <h2 id="wish-saved">Saved views</h2>
        <${Filter} part="SavedEditor" quiet />
      </section>
      <${Install} part="InstallSettings" quiet />
      <${Access} />
      <section class="wish" aria-labelledby="wish-help">
        <h2 id="wish-help">Help</h2>
        <p>
          Press <kbd>?</kbd> for the keyboard shortcuts, <kbd>Ctrl</kbd> <kbd>K</kbd> to search everything.
        </p>
      </section>
    </section>
  `;
}
