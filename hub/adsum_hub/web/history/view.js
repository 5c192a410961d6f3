// @ts-check
/** The search for sessions that are over, day by day; one that is found opens as any other does. */
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { Spent } from "../board/card.js";
import { counted, duration, exact, plain } from "../core/format.js";
import { hubNow } from "../core/link.js";
import { openSession } from "../core/navigation.js";
import { here, hosts } from "../core/roster.js";
import { sessionPath } from "../core/routes.js";
import { GROUPS, modelName, titleOf } from "../core/states.js";
import { SinceWhen } from "../frame/empty.js";
import {
  askAgain,
  clearSearch,
  found,
  inProject,
  more,
  onHost,
  projects,
  seeking,
  wanted,
  watchSearch,
} from "./state.js";
import { Ghosts, html, Icon, Sentence } from "../ui/html.js";

/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { SessionView } from "../wire.js" */

const dayWords = new Intl.DateTimeFormat(undefined, {
  weekday: "long",
  day: "numeric",
  month: "long",
  year: "numeric",
});

const timeWords = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const DAY_MS = 86_400_000;

export function View() {
  const box = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(watchSearch, []);
  useEffect(() => {
    // Where there are no keys, the focus would bring up a keyboard over what was found.
    if (matchMedia("(pointer: fine)").matches && !document.querySelector("dialog[open]")) box.current?.focus();
  }, []);
  const { phase, sessions, total, why, notes } = found.value;
  return html`
    <section class="view history" data-name="history" aria-labelledby="view-title" onKeyDown=${onArrow}>
      <h2 id="view-title">History</h2>
      <search class="seek">
        <label class="filter">
          <${Icon} name="search" />
          <span class="sr">Search ended sessions</span>
          <input
            ref=${box}
            type="search"
            placeholder="Title, project, machine, branch …"
            autocomplete="off"
            spellcheck=${false}
            maxlength="200"
            value=${wanted}
            onInput=${(/** @type {InputEvent} */ e) =>
              (wanted.value = /** @type {HTMLInputElement} */ (e.target).value)
            }
          />
        </label>
        <${Choose}
          name="Machine"
          every="All machines"
          chosen=${onHost}
          options=${hosts.value.map(({ label }) => label)}
        />
        <${Choose} name="Project" every="All projects" chosen=${inProject} options=${projectNames()} />
      </search>
      <p class="found" role="status">
        ${phase === "shown" && total > 0 ? `${counted(total, "session")}, the latest first` : ""}
      </p>
      ${notes.map((note) => html`
        <p class="quiet" key=${note}>
          <${Sentence} text=${plain(note)} />
        </p>
      `)}
      ${phase === "failed" && html`
        <p class="log-failed" role="alert">
          <${Icon} name="triangle-alert" />
          <span>
            <${Sentence} text=${why ?? ""} /> ${sessions.length > 0 ? "Below are the previous results." : ""}
          </span>
          <button class="button" onClick=${askAgain}>
            <${Icon} name="refresh-cw" />
            Try again
          </button>
        </p>
        <${SinceWhen} />
      `}
      ${phase === "loading" && sessions.length === 0 && html`<${Ghosts} words="Searching" />`}
      ${phase === "shown" && sessions.length === 0 && html`<${NoMatch} />`}
      ${sessions.length > 0 && html`
        <div class="days" aria-busy=${phase === "loading"} data-busy=${phase === "loading"}>
          ${daysOf(sessions).map(([day, list]) => html`
            <section class="day" key=${day} aria-label=${day}>
              <h3 class="day-head">${day}</h3>
              <ol class="results">
                ${list.map((session) => html`
                  <${Result} key=${session.id} session=${session} />
                `)}
              </ol>
            </section>
          `)}
        </div>
      `}
      ${sessions.length > 0 && sessions.length < total && html`
        <button class="more" disabled=${phase === "loading"} onClick=${more}>
          Show more (${(total - sessions.length).toLocaleString()} not shown)
        </button>
      `}
    </section>
  `;
}

/**
 * One of those that are known; what the address names is among them, known or not.
 * @param {{name: string, every: string, chosen: Signal<string>, options: string[]}} props
 */
function Choose({ name, every, chosen, options }) {
  const all = [...new Set(chosen.value ? [...options, chosen.value] : options)].sort((a, b) => a.localeCompare(b));
  return html`
    <label class="choose">
      <span class="sr">${name}</span>
      <select
        value=${chosen.value}
        onChange=${(/** @type {Event} */ e) => (chosen.value = /** @type {HTMLSelectElement} */ (e.target).value)}
      >
        <option value="">${every}</option>
        ${all.map((each) => html`
          <option key=${each} value=${each} selected=${each === chosen.value}>
            ${plain(each)}
          </option>
        `)}
      </select>
      <${Icon} name="chevron-down" />
    </label>
  `;
}

/** Those of the live list and of all that was found so far. */
function projectNames() {
  const live = GROUPS.flatMap((group) => here[group].value.map(({ view }) => view.peek().project ?? ""));
  return [...new Set([...projects, ...live])].filter(Boolean);
}

function NoMatch() {
  const { sought } = found.value;
  if (!seeking.value && !sought)
    return html`<p class="nobody">No session has ended yet. Ended sessions are found here.</p>`;
  return html`
    <p class="nobody">
      <span>
        ${sought ? html`
          No session matches “<bdi>${plain(sought)}</bdi>”.
        ` : (
          "No session matches."
        )}
      </span>
    </p>
    <p class="ways">
      <button class="button" onClick=${clearSearch}>
        <${Icon} name="x" />
        Clear the search
      </button>
    </p>
  `;
}

/**
 * @param {SessionView[]} sessions the latest first
 * @returns {[string, SessionView[]][]} by the day on which they ended
 */
function daysOf(sessions) {
  /** @type {Map<string, SessionView[]>} */
  const days = new Map();
  for (const session of sessions) {
    const day = dayOf(session.ended_at ?? session.updated_at);
    const list = days.get(day);
    if (list) list.push(session);
    else days.set(day, [session]);
  }
  return [...days];
}

/** @param {number} at */
function dayOf(at) {
  const now = hubNow.peek();
  const day = new Date(at).toDateString();
  if (day === new Date(now).toDateString()) return "Today";
  return day === new Date(now - DAY_MS).toDateString() ? "Yesterday" : dayWords.format(at);
}

/** Up and down lead from the box through what was found. @param {KeyboardEvent} press */
function onArrow(press) {
  if (!["ArrowDown", "ArrowUp"].includes(press.key) || press.target instanceof HTMLSelectElement) return;
  const within = /** @type {HTMLElement} */ (press.currentTarget);
  const stops = /** @type {HTMLElement[]} */ ([...within.querySelectorAll("input, .row-open")]);
  const to =
    stops[
      stops.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + (press.key === "ArrowDown" ? 1 : -1)
    ];
  if (!to) return;
  press.preventDefault();
  to.focus();
}

/** @param {{session: SessionView}} props */
function Result({ session }) {
  const { id, project, host, branch, model, started_at, usage, plan } = session;
  const at = session.ended_at ?? session.updated_at;
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    if (!(/** @type {Element} */ (click.target).closest("a")) && !getSelection()?.toString()) openSession(id);
  };
  return html`
    <li class="result" data-id=${id} onClick=${onClick}>
      <h4 class="title">
        <a class="row-open" href=${sessionPath(id)} aria-haspopup="dialog">
          <bdi>${titleOf(session)}</bdi>
        </a>
      </h4>
      <span class="result-end">
        <span class="sr">ended at </span>
        <time datetime=${new Date(at).toISOString()} title=${exact(at)}>
          ${timeWords.format(at)}
        </time>
      </span>
      <ul class="meta">
        ${project && session.title && html`
          <li>
            <${Icon} name="folder" />
            <bdi>${plain(project)}</bdi>
          </li>
        `}
        <li>
          <${Icon} name="server" />
          <bdi>${plain(host)}</bdi>
        </li>
        ${branch && html`
          <li>
            <${Icon} name="git-branch" />
            <bdi>${plain(branch)}</bdi>
          </li>
        `}
        ${model && html`
          <li title=${plain(model)}>
            <${Icon} name="cpu" />
            ${modelName(plain(model))}
          </li>
        `}
        ${started_at && at > started_at && html`
          <li>
            <${Icon} name="timer" />
            <span class="sr">took </span>
            ${duration(at - started_at)}
          </li>
        `}
        ${usage && html`<${Spent} usage=${usage} plan=${plan} />`}
      </ul>
    </li>
  `;
}
