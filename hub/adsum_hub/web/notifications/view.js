// @ts-check
/** Settings of notifications: push, what the open page does, the hub's rules and channels. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { askHub, me, sendToHub } from "../core/api.js";
import { counted, duration, plain } from "../core/format.js";
import { SinceWhen } from "../frame/empty.js";
import { desktop, lookAtPush, playTone, push, sound, turnOff, turnOn, wayBack } from "./state.js";
import { Age, html, Icon } from "../ui/html.js";

/** @import { Signal } from "../vendor/signals-core.js" */

/**
 * @typedef {{name: string, content: string, waiting: number, sent: number, failed: number, dropped: number,
 *   sent_at: number | null, failed_at: number | null, error: string | null, problem: string | null}} Channel
 */
/**
 * @typedef {{on: string, channels: string[], after_s: number, digest_s: number, state: string[], host: string[],
 *   project: string[], quiet: string | null}} Rule
 */
/**
 * @typedef {{public_key: string | null, problem: string | null, contact: boolean, subscriptions: number,
 *   others: number, channels: Channel[], rules: Rule[]}} Status
 */

/** @type {Record<string, string>} */
const RULE_NAMES = { needs_you: "Needs you", delivered: "Delivered", host_offline: "A machine is offline" };
const CONTENT = { none: "sends state and machine only", title: "also sends titles, projects and requests" };

/** All of it; to be drawn within the settings. */
export function View() {
  const status = useSignal(/** @type {Status | undefined} */ (undefined));
  const why = useSignal("");
  const look = async () => {
    const answer = await askHub("/api/v1/notify", new AbortController().signal);
    if (answer.body) status.value = answer.body;
    why.value = answer.why ?? "";
  };
  useEffect(() => {
    lookAtPush();
    look();
  }, []);
  return html`
    <div class="notify">
      <${PushHere} status=${status} look=${look} />
      <${WhileOpen} />
      ${why.value && html`
        <p class="wish-wrong" role="alert">
          The notification rules could not be loaded. ${why.value}
        </p>
        <${SinceWhen} />
      `}
      ${status.value && html`
        <${Rules} rules=${status.value.rules} />
        <${Channels} channels=${status.value.channels} look=${look} />
      `}
    </div>
  `;
}

const PUSH_WORDS = {
  unknown: "Loading.",
  unsupported:
    "This browser has no push notifications. Use a channel of the hub instead, such as mail or ntfy.",
  insecure:
    "Browsers allow push notifications only on pages opened over https or on this machine itself, and this one " +
    "was opened over plain http. The documentation says how, under Phone.",
  home_screen:
    "On this device push notifications need the Home Screen: press Share, then Add to Home Screen, and open " +
    "Adsum from there.",
  denied: "Notifications are blocked for this address, and only you can allow them.",
  off: "Off. Turned on, this browser notifies you when a session needs you, even if the page is closed.",
  on: "On: this browser notifies you when a session needs you, even if the page is closed.",
};

/** @param {{status: Signal<Status | undefined>, look: () => Promise<void>}} props */
function PushHere({ status, look }) {
  const busy = useSignal(false);
  const wrong = useSignal("");
  const state = push.value;
  const keys = status.value;
  /** @param {() => Promise<string | undefined>} turn */
  const turning = async (turn) => {
    busy.value = true;
    wrong.value = (await turn()) ?? "";
    busy.value = false;
    await look();
  };
  return html`
    <section class="wish" aria-labelledby="wish-push">
      <h2 id="wish-push">Push notifications</h2>
      <p role="status" data-push=${state}>
        ${PUSH_WORDS[state]}
        ${state === "denied" && html` ${wayBack()}`}
      </p>
      ${state === "off" && keys && html`
        <button class="button" disabled=${busy.value} onClick=${() => turning(() => turnOn(keys))}>
          <${Icon} name="bell" />
          Turn on
        </button>
      `}
      ${state === "on" && html`
        <p class="wish-ways">
          <button class="button" disabled=${busy.value} onClick=${() => turning(turnOff)}>
            <${Icon} name="bell-off" />
            Turn off
          </button>
          <${Test} channel="push" look=${look} />
        </p>
      `}
      ${wrong.value && html`
        <p class="wish-wrong" role="alert">
          ${wrong.value}
        </p>
      `}
      ${keys && html`
        <p class="wish-note">
          ${counted(keys.subscriptions, "browser receives", "browsers receive")} push notifications from this hub.
          ${keys.others > 0 &&
            ` ${counted(keys.others, "other was", "others were")} subscribed with another hub's key.`}
          ${!keys.contact && " iPhones and iPads receive none until push_contact, a mail address, is set on the hub."}
        </p>
      `}
    </section>
  `;
}

/** Settings of this browser alone. */
function WhileOpen() {
  const asked = useSignal("");
  /** @param {Event & {currentTarget: HTMLInputElement}} event */
  const want = async ({ currentTarget }) => {
    asked.value = "";
    if (!currentTarget.checked) return void (desktop.value = false);
    const allowed = "Notification" in window ? await Notification.requestPermission() : "denied";
    desktop.value = allowed === "granted";
    currentTarget.checked = desktop.value;
    if (!desktop.value)
      asked.value =
        "Notification" in window
          ? `Not allowed for this address. ${wayBack()}`
          : "This browser does not support notifications here.";
    lookAtPush();
  };
  return html`
    <section class="wish" aria-labelledby="wish-open">
      <h2 id="wish-open">While the page is open</h2>
      <label class="wish-box">
        <input type="checkbox" checked=${desktop.value} onChange=${want} />
        <span>Show desktop notifications while the page is hidden</span>
      </label>
      ${asked.value && html`
        <p class="wish-wrong" role="alert">
          ${asked.value}
        </p>
      `}
      ${desktop.value && push.value === "on" && html`
        <p class="wish-note">Push notifications are on, so the page itself shows none.</p>
      `}
      <fieldset class="wish-choice">
        <legend>Play a soft tone when a session begins to need you</legend>
        ${[
          ["off", "Never"],
          ["hidden", "While the page is hidden"],
          ["always", "Always"],
        ].map(([name, words]) => html`
          <label class="wish-box" key=${name}>
            <input
              type="radio"
              name="sound"
              value=${name}
              checked=${sound.value === name}
              onChange=${() => (sound.value = name)}
            />
            <span>${words}</span>
          </label>
        `)}
      </fieldset>
      ${sound.value !== "off" && html`
        <button class="button" onClick=${playTone}>
          <${Icon} name="bell" />
          Play it
        </button>
        <p class="wish-note">Browsers play no sound until you have clicked something on the page.</p>
      `}
    </section>
  `;
}

/** @param {{rules: Rule[]}} props */
function Rules({ rules }) {
  return html`
    <section class="wish" aria-labelledby="wish-rules">
      <h2 id="wish-rules">Notifications</h2>
      <ul class="wish-list">
        ${rules.map((rule, i) => html`
          <li key=${i}>
            <strong>
              ${RULE_NAMES[rule.on] ?? plain(rule.on)}
            </strong>${" "}
            <span>${ruleWords(rule)}</span>
          </li>
        `)}
      </ul>
      <p class="wish-note">
        Rules, quiet hours and channels are set in the hub's <code>config.toml</code>, under${" "}
        <code>[[notify]]</code>${" "}
        and <code>[[channel]]</code>, which is read when the hub starts.
      </p>
    </section>
  `;
}

/** @param {Rule} rule */
function ruleWords({ channels, after_s: after, digest_s: digest, state, host, project, quiet }) {
  const only = [
    ["state", state],
    ["machine", host],
    ["project", project],
  ].filter(([, list]) => list.length > 0);
  const parts = [
    `to ${channels.map((name) => plain(name)).join(", ")}`,
    after > 1 ? `if it still applies after ${duration(after * 1000)}` : "at once",
    ...only.map(
      ([of, list]) =>
        `only ${of} ${[list]
          .flat()
          .map((each) => plain(each))
          .join(" or ")}`,
    ),
    digest > 0 && `in at most one message each ${duration(digest * 1000)}`,
    quiet && `held back during the quiet hours ${plain(quiet)}`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** @param {{channels: Channel[], look: () => Promise<void>}} props */
function Channels({ channels, look }) {
  return html`
    <section class="wish" aria-labelledby="wish-channels">
      <h2 id="wish-channels">Channels</h2>
      <ul class="wish-list">
        ${channels.map((each) => html`
          <${OneChannel} key=${each.name} channel=${each} look=${look} />
        `)}
      </ul>
    </section>
  `;
}

/** @param {{channel: Channel, look: () => Promise<void>}} props */
function OneChannel({ channel, look }) {
  const {
    name,
    content,
    sent,
    sent_at: at,
    failed,
    failed_at: failedAt,
    dropped,
    waiting,
    error,
    problem,
  } = channel;
  return html`
    <li data-bad=${problem !== null}>
      <strong>
        <${Icon} name=${problem === null ? "circle-check" : "triangle-alert"} />
        ${plain(name)}
      </strong>
      <span>
        ${CONTENT[/** @type {keyof typeof CONTENT} */ (content)] ?? plain(content)}; ${counted(sent, "message")} sent
        ${at !== null && html`
          , the last <${Age} at=${at} /> ago
        `}
        ${waiting > 0 && `; ${counted(waiting, "message waits", "messages wait")}`}
        ${dropped > 0 && `; ${dropped.toLocaleString()} dropped`}
      </span>
      ${error !== null && html`
        <span class="wish-wrong">
          ${counted(failed, "failure")}
          ${failedAt !== null && html`
            , the last <${Age} at=${failedAt} /> ago
          `}
          : ${plain(error)}
        </span>
      `}
      <${Test} channel=${name} look=${look} />
    </li>
  `;
}

/** @param {{channel: string, look: () => Promise<void>}} props */
function Test({ channel, look }) {
  const said = useSignal("");
  const busy = useSignal(false);
  const test = async () => {
    busy.value = true;
    const { body, why } = await sendToHub("POST", "/api/v1/notify/test", { channel });
    const error = why ?? body?.tried?.[0]?.error;
    said.value = error
      ? `Not sent: ${plain(error)}`
      : "Sent. If nothing appears, check your system's notification settings.";
    busy.value = false;
    look();
  };
  const kept = me.value?.role === "viewer" ? "For operators and admins: you are signed in as viewer." : "";
  return html`
    <span class="wish-test">
      <button
        class="button"
        disabled=${busy.value || kept !== ""}
        onClick=${test}
        aria-label=${`Send a test: ${plain(channel)}`}
      >
        Send a test
      </button>
      <span role="status">${said.value || kept}</span>
    </span>
  `;
}
