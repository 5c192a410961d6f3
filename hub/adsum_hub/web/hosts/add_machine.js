// @ts-check
/** Adding a machine: one command to run there, then waiting until it reports; the commands that are still valid. */
import { useEffect, useMemo } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { fetchMe, me, sendToHub } from "../core/api.js";
import { counted, plain } from "../core/format.js";
import { hosts } from "../core/roster.js";
import { pathTo } from "../core/routes.js";
import { Command, Copy, useList, Wrong } from "../ui/controls.js";
import { Ghosts, html, Icon, Until } from "../ui/html.js";
import { Sheet } from "../ui/overlays.js";

/** @import { Signal } from "../vendor/signals-core.js" */

/** @typedef {{id: string, since: number, until: number, reusable: boolean, label: string, uses: number}} JoinToken */
/** @typedef {{secret: string, command: string, note: string | null, token: JoinToken}} Made */

const PATH = "/api/v1/join-tokens";
const HOUR_S = 3600;
const LASTS = { "an hour": HOUR_S, "a day": 24 * HOUR_S, "a week": 7 * 24 * HOUR_S, "31 days": 31 * 24 * HOUR_S };
const ON_HUB = "adsum hub tokens create --join";

/** @param {{onClose: () => void}} props */
export function View({ onClose }) {
  const why = useSignal("");
  useEffect(() => void fetchMe().then((answer) => (why.value = answer.why ?? "")), []);
  return html`
    <${Sheet} name="add_machine" title="Add a machine" onClose=${onClose}>
      <div class="adding">
        ${me.value ? (
          me.value.role === "admin" ? html`
            <${Adding} />
          ` : html`
            <${NotYours} role=${me.value.role} />
          `
        ) : why.value ? html`
          <${Wrong} why=${why} />
        ` : html`
          <${Ghosts} words="Loading" />
        `}
      </div>
    <//>
  `;
}

/** @param {{role: string}} props */
function NotYours({ role }) {
  return html`
    <p>
      Adding machines is for admins, and you are signed in as ${role}. Ask an admin, or run this on the
      hub's machine:
    </p>
    <${Command} text=${ON_HUB} />
  `;
}

function Adding() {
  const made = useSignal(/** @type {Made | undefined} */ (undefined));
  const { list, why, look } = useList(PATH, "tokens");
  const wrong = useSignal("");
  const gone = made.value && list.value && !list.value.some(({ id }) => id === made.value?.token.id);
  return html`
    ${me.value?.sign_in === false && html`
      <p class="adding-note" role="note">
        <${Icon} name="triangle-alert" />
        <span>
          This hub needs no sign-in, so it answers on its own machine only. Another machine reaches it through a
          tunnel: run there first${" "}
          <code>
            ssh -N -L ${location.port}:127.0.0.1:${location.port} THIS-MACHINE
          </code>
          . Or set up sign-in and <code>ADSUM_PUBLIC_URL</code>.
        </span>
      </p>
    `}
    ${made.value ? html`
      <${Line} made=${made.value} used=${Boolean(gone)} look=${look} onAnother=${() => (made.value = undefined)} />
    ` : html`
      <${Form}
        wrong=${wrong}
        onMade=${(/** @type {Made} */ one) => {
          // Until the list comes, so that the line does not pass for used.
          list.value = [...(list.value ?? []), one.token];
          made.value = one;
          look();
        }}
      />
    `}
    <${Wrong} why=${wrong} />
    <${Tokens} list=${list} why=${why} look=${look} own=${made.value?.token.id} />
  `;
}

/** @param {{wrong: Signal<string>, onMade: (made: Made) => void}} props */
function Form({ wrong, onMade }) {
  const lasts = useSignal("an hour");
  const many = useSignal(false);
  const name = useSignal("");
  const busy = useSignal(false);
  /** @param {SubmitEvent} submit */
  const make = async (submit) => {
    submit.preventDefault();
    if (busy.value) return;
    busy.value = true;
    const wanted = {
      expires_s: LASTS[/** @type {keyof typeof LASTS} */ (lasts.value)],
      reusable: many.value,
      label: many.value ? "" : name.value.trim(),
    };
    const { body, why } = await sendToHub("POST", PATH, wanted);
    busy.value = false;
    wrong.value = why ?? (body.command ? "" : "The hub's answer could not be read.");
    if (body?.command) onMade(body);
  };
  return html`
    <p>
      You get one command to run on the machine. It connects the machine to this hub, with credentials of its
      own, and sets up its collector.
    </p>
    <form class="adding-form" onSubmit=${make}>
      <label>
        <span>The command is valid for</span>
        <select
          value=${many.value ? "many" : "one"}
          onChange=${(/** @type {Event} */ e) =>
            (many.value = /** @type {HTMLSelectElement} */ (e.target).value === "many")
          }
        >
          <option value="one">one machine</option>
          <option value="many">any number of machines</option>
        </select>
      </label>
      <label>
        <span>It expires after</span>
        <select
          value=${lasts}
          onChange=${(/** @type {Event} */ e) => (lasts.value = /** @type {HTMLSelectElement} */ (e.target).value)}
        >
          ${Object.keys(LASTS).map((each) => html`
            <option key=${each} value=${each}>
              ${each}
            </option>
          `)}
        </select>
      </label>
      ${!many.value && html`
        <label>
          <span>Name (optional)</span>
          <input
            maxlength="100"
            autocomplete="off"
            spellcheck=${false}
            placeholder="Its host name"
            value=${name}
            onInput=${(/** @type {InputEvent} */ e) =>
              (name.value = /** @type {HTMLInputElement} */ (e.target).value)
            }
          />
        </label>
      `}
      <button class="button adding-make" aria-disabled=${busy.value}>
        <${Icon} name="plus" />
        Create the command
      </button>
    </form>
  `;
}

/** @param {{made: Made, used: boolean, look: () => Promise<void>, onAnother: () => void}} props */
function Line({ made, used, look, onAnother }) {
  const { command, secret, token, note } = made;
  const asked = command.replace(secret, "-");
  return html`
    <section class="adding-line" aria-labelledby="adding-line">
      <h3 id="adding-line" tabindex="-1" ref=${focusOnce}>
        Run this on the machine
      </h3>
      <${Command} text=${command} />
      <p class="wish-note">
        Shown only once. ${token.reusable ? "For any number of machines" : "For one machine"}, valid for${" "}
        <${Until} at=${token.until} />. It needs <code>adsum</code> installed there.
      </p>
      ${note && html`
        <p class="adding-note" role="note">
          <${Icon} name="triangle-alert" />
          <span>${plain(note)}</span>
        </p>
      `}
      <details class="adding-quiet">
        <summary>Keep the token out of the shell's history</summary>
        <p>
          Run this command, then paste the token and press Enter and Ctrl D. In a script, set${" "}
          <code>ADSUM_JOIN_TOKEN</code> instead.
        </p>
        <${Command} text=${asked} />
        <p class="adding-token">
          <code>${secret}</code>
          <${Copy} text=${secret} what="the token" />
        </p>
      </details>
    </section>
    <${Arrivals} token=${token} used=${used} look=${look} />
    <button class="button" onClick=${onAnother}>
      <${Icon} name="plus" />
      Create another command
    </button>
  `;
}

/** What a reader goes on from, once it is there. @param {HTMLElement | null} heading */
function focusOnce(heading) {
  heading?.focus();
}

/** @param {{token: JoinToken, used: boolean, look: () => Promise<void>}} props */
function Arrivals({ token, used, look }) {
  const before = useMemo(
    () =>
      new Set(
        hosts
          .peek()
          .filter(({ reachability }) => reachability !== "offline")
          .map(({ id }) => id),
      ),
    [token.id],
  );
  const come = hosts.value.filter(({ id, reachability }) => reachability !== "offline" && !before.has(id));
  // A machine that has come has used it up.
  useEffect(() => void (come.length > 0 && look()), [come.length]);
  return html`
    <div class="adding-come" role="status" data-here=${come.length > 0}>
      ${come.map(({ id, label }) => html`
        <p key=${id}>
          <${Icon} name="check" />
          <span>
            <b>
              <bdi>${plain(label)}</bdi>
            </b>${" "}
            is connected.
          </span>${" "}
          <a class="link" href=${`${pathTo("hosts")}#${encodeURIComponent(id)}`}>
            Show it
          </a>
        </p>
      `)}
      ${come.length === 0 && html`
        <p>
          <${Icon} name="hourglass" />
          <span>
            ${used
              ? "The command was used or revoked. If no machine appears, create another."
              : "Waiting for its first signal, about two seconds after the command has run. Errors are shown there."}
          </span>
        </p>
      `}
      ${come.length > 0 && token.reusable && html`
        <p class="quiet">
          <${Icon} name="hourglass" />
          <span>Waiting for more machines.</span>
        </p>
      `}
    </div>
  `;
}

/**
 * @param {{list: Signal<JoinToken[] | undefined>, why: Signal<string>, look: () => Promise<void>, own?: string}} props
 */
function Tokens({ list, why, look, own }) {
  const open = list.value ?? [];
  /** @param {string} id */
  const revoke = async (id) => {
    const { why: wrong } = await sendToHub("DELETE", `${PATH}/${encodeURIComponent(id)}`);
    await look();
    why.value = wrong ?? why.value;
  };
  return html`
    <${Wrong} why=${why} />
    ${open.length > 0 && html`
      <section aria-labelledby="adding-open">
        <h3 id="adding-open">Commands that are still valid</h3>
        <ul class="adding-list">
          ${open.map(({ id, label, until, reusable, uses }) => html`
            <li key=${id}>
              <span>
                <b>
                  ${id === own ? (
                    "The one above"
                  ) : label ? html`
                    For <bdi>${plain(label, 100)}</bdi>
                  ` : (
                    `For ${reusable ? "many machines" : "one machine"}`
                  )}
                </b>
                <span class="quiet">
                  good for <${Until} at=${until} />
                  ${reusable && `, ${uses === 0 ? "not used yet" : `${counted(uses, "machine")} so far`}`}.${" "}
                  <code>${plain(id, 40)}</code>
                </span>
              </span>
              <button class="button" aria-label=${`Revoke ${plain(id, 40)}`} onClick=${() => revoke(id)}>
                <${Icon} name="trash-2" />
                Revoke
              </button>
            </li>
          `)}
        </ul>
      </section>
    `}
  `;
}
