// @ts-check
/** Settings: appearance, notifications, saved views, the app; who you are; for admins, who may see this hub. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { fetchMe, me, sendToHub } from "../core/api.js";
import { exact, plain } from "../core/format.js";
import { DENSITIES, density, setDensity, setTheme, theme, THEMES } from "../core/preferences.js";
import { signOut } from "../notifications/state.js";
import { Choice, Copy, useList, Wrong } from "../ui/controls.js";
import { Age, html, Icon, lazy, Until } from "../ui/html.js";

/** @import { Signal } from "../vendor/signals-core.js" */

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

/**
 * @typedef {{id: string, name: string, role: string, since: number, seen: number, ends: number, where: string}} SignIn
 */
/** @typedef {{id: string, name: string, role: string, since: number, seen: number, until: number}} Token */

const ROLES = { viewer: "sees everything", operator: "may also act", admin: "may also give others access" };
const DAY_S = 24 * 3600;
const LASTS = { "7 days": 7 * DAY_S, "90 days": 90 * DAY_S, "a year": 365 * DAY_S };

function Access() {
  useEffect(() => void fetchMe(), []);
  const who = me.value;
  if (!who) return null;
  return html`
    <section class="wish" aria-labelledby="wish-access">
      <h2 id="wish-access">Access</h2>
      ${who.sign_in ? html`
        <p>
          Signed in as${" "}
          <b>
            <bdi>${plain(who.name)}</bdi>
          </b>
          , ${who.role}: ${ROLES[who.role]}.
        </p>
        <button class="button" onClick=${signOut}>
          <${Icon} name="log-out" />
          Sign out
        </button>
      ` : html`
        <p>
          Sign-in is switched off (<code>ADSUM_SIGN_IN=off</code>), so the hub answers on this machine only.
        </p>
      `}
      ${who.sign_in && who.role === "admin" && html`
        <${Links} />
        <${SignIns} />
        <${Tokens} />
      `}
    </section>
  `;
}

/** A link that lets one browser in: a phone of yours, a colleague's. */
function Links() {
  const role = useSignal("viewer");
  const made = useSignal(/** @type {{address: string, until: number} | undefined} */ (undefined));
  const why = useSignal("");
  const make = async () => {
    const { body, why: wrong } = await sendToHub("POST", "/api/v1/login-links", { role: role.value });
    why.value = wrong ?? "";
    made.value = body && { address: `${body.public_url ?? location.origin}/login#${body.code}`, until: body.until };
  };
  return html`
    <h3>Sign in another browser</h3>
    <p class="quiet">A link for a phone or a colleague. It signs in one browser, once, within ten minutes.</p>
    <div class="wish-ways">
      <${Roles} role=${role} />
      <button class="button" onClick=${make}>
        <${Icon} name="key-round" />
        Create a link
      </button>
    </div>
    <${Wrong} why=${why} />
    ${made.value && html`
      <div class="secret" role="status">
        <code>${made.value.address}</code>
        <${Copy} text=${made.value.address} what="the link" />
        <p class="wish-note">
          Good for <${Until} at=${made.value.until} />.
        </p>
      </div>
    `}
  `;
}

/** @param {{role: Signal<string>}} props */
function Roles({ role }) {
  return html`
    <label class="pick">
      <span class="sr">Role</span>
      <select
        value=${role}
        onChange=${(/** @type {Event} */ e) => (role.value = /** @type {HTMLSelectElement} */ (e.target).value)}
      >
        ${Object.entries(ROLES).map(([name, words]) => html`
          <option key=${name} value=${name}>
            ${name}: ${words}
          </option>
        `)}
      </select>
    </label>
  `;
}

function SignIns() {
  const { list, why, look } = useList("/api/v1/sign-ins", "sign_ins");
  /** @param {string} id */
  const end = async (id) => {
    why.value = (await sendToHub("DELETE", `/api/v1/sign-ins/${encodeURIComponent(id)}`)).why ?? "";
    await look();
  };
  return html`
    <h3>Signed in</h3>
    <${Wrong} why=${why} />
    <ul class="wish-list">
      ${list.value?.map((/** @type {SignIn} */ { id, name, role, seen, where }) => html`
        <li key=${id}>
          <strong>
            <bdi>${plain(name)}</bdi>
          </strong>
          <span>
            ${role}, seen <${Age} at=${seen} /> ago. <bdi>${plain(where)}</bdi>
          </span>
          <button class="button" onClick=${() => end(id)} aria-label=${`Sign out ${name}`}>
            <${Icon} name="log-out" />
            Sign out
          </button>
        </li>
      `)}
    </ul>
  `;
}

function Tokens() {
  const { list, why, look } = useList("/api/v1/tokens", "tokens");
  const role = useSignal("viewer");
  const name = useSignal("");
  const lasts = useSignal("90 days");
  const made = useSignal("");
  /** @param {SubmitEvent} submit */
  const make = async (submit) => {
    submit.preventDefault();
    const wanted = {
      role: role.value,
      name: name.value.trim(),
      expires_s: LASTS[/** @type {keyof typeof LASTS} */ (lasts.value)],
    };
    const { body, why: wrong } = await sendToHub("POST", "/api/v1/tokens", wanted);
    why.value = wrong ?? "";
    made.value = body?.secret ?? "";
    await look();
  };
  /** @param {string} id */
  const revoke = async (id) => {
    why.value = (await sendToHub("DELETE", `/api/v1/tokens/${encodeURIComponent(id)}`)).why ?? "";
    await look();
  };
  return html`
    <h3>Tokens</h3>
    <p class="quiet">
      For scripts and the command line of other machines: <code>ADSUM_TOKEN=…</code>
    </p>
    ${list.value?.length === 0 && html`<p class="quiet">None yet.</p>`}
    ${list.value && list.value.length > 0 && html`
      <ul class="wish-list">
        ${list.value.map((/** @type {Token} */ token) => html`
          <li key=${token.id}>
            <strong>
              <bdi>${plain(token.name)}</bdi>
            </strong>
            <span>
              ${token.role}, good until${" "}
              <time datetime=${new Date(token.until).toISOString()}>${exact(token.until)}</time>,${" "}
              ${token.seen ? html`
                used <${Age} at=${token.seen} /> ago
              ` : (
                "never used"
              )}
            </span>
            <button class="button" onClick=${() => revoke(token.id)} aria-label=${`Revoke ${token.name}`}>
              <${Icon} name="trash-2" />
              Revoke
            </button>
          </li>
        `)}
      </ul>
    `}
    <form class="wish-ways" onSubmit=${make}>
      <label class="pick">
        <span class="sr">Name of the token</span>
        <input
          required
          maxlength="64"
          placeholder="Purpose"
          value=${name}
          onInput=${(/** @type {InputEvent} */ e) =>
            (name.value = /** @type {HTMLInputElement} */ (e.target).value)
          }
        />
      </label>
      <${Roles} role=${role} />
      <label class="pick">
        <span class="sr">Good for</span>
        <select
          value=${lasts}
          onChange=${(/** @type {Event} */ e) => (lasts.value = /** @type {HTMLSelectElement} */ (e.target).value)}
        >
          ${Object.keys(LASTS).map((each) => html`
            <option key=${each}>${each}</option>
          `)}
        </select>
      </label>
      <button class="button">
        <${Icon} name="plus" />
        Create a token
      </button>
    </form>
    <${Wrong} why=${why} />
    ${made.value && html`
      <div class="secret" role="status">
        <code>${made.value}</code>
        <${Copy} text=${made.value} what="the token" />
        <p class="wish-note">Shown only once. Copy it now.</p>
      </div>
    `}
  `;
}
