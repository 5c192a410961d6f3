// @ts-check
/** What stands where there is no session: the first steps, the way to the history, when the page was last live. */
import { useEffect } from "../vendor/preact-hooks.js";
import { signal } from "../vendor/signals-core.js";
import { askHub } from "../core/api.js";
import { counted, moment, plain } from "../core/format.js";
import { linkState } from "../core/link.js";
import { hosts, known, lastLive, lastLiveAt } from "../core/roster.js";
import { pathTo } from "../core/routes.js";
import { whileReading } from "../hosts/state.js";
import { Command } from "../ui/controls.js";
import { html, Icon } from "../ui/html.js";

/** Nothing until the hub has said. */
const pastCount = signal(/** @type {number | undefined} */ (undefined));

/** @returns {() => void} to be called when nobody looks any more */
function watchPastCount() {
  const stopped = new AbortController();
  const ask = async () => {
    const { body } = await askHub("/api/v1/history?limit=1", stopped.signal);
    // What goes wrong is the link's to tell; here the last word stands.
    if (!stopped.signal.aborted && typeof body?.total === "number") pastCount.value = body.total;
  };
  ask();
  const end = whileReading(ask);
  return () => {
    stopped.abort();
    end();
  };
}

export function View() {
  useEffect(watchPastCount, []);
  const count = pastCount.value ?? 0;
  return html`
    <div class="notice">
      <span class="notice-mark">
        <img src="/static/icon.svg" alt="" width="44" height="44" />
      </span>
      ${count > 0 ? html`<${PastSessions} count=${count} />` : html`<h2>No sessions yet</h2>`}
      <p>
        ${machinesWords()}${" "}
        ${count > 0
          ? "A session appears here as soon as it is active again. If it does not:"
          : "Three steps to your first session:"}
      </p>
      <ol class="steps">
        <li>
          <h3>Install the Claude Code hooks</h3>
          <p>
            They are added beside your own. <code>--dry-run</code> shows what would be written.
          </p>
          <${Command} text="adsum hooks install" />
        </li>
        <li>
          <h3>Start an agent in any project</h3>
          <p>It appears here within two seconds.</p>
          <${Command} text="claude" />
        </li>
        <li>
          <h3>Add more machines</h3>
          <p>You get one command to run there.</p>
          <p>
            <a class="button" href=${`${pathTo("hosts")}#add`}>
              Create the command
            </a>
          </p>
        </li>
      </ol>
    </div>
  `;
}

function machinesWords() {
  const machines = hosts.value.length;
  if (machines === 0) return "The hub is ready, but no machine reports to it.";
  const report = `${counted(machines, "machine reports", "machines report")} to this hub`;
  return pastCount.value ? `${report}.` : `${report}, and no agent has run there yet.`;
}

/** The way to what was. @param {{count: number}} props */
function PastSessions({ count }) {
  return html`
    <h2>No session is active</h2>
    <p>${counted(count, "session is", "sessions are")} in the history.</p>
    <p class="ways">
      <a class="button" href=${pathTo("history")}>
        <${Icon} name="archive" />
        History
      </a>
      <a class="button" href=${pathTo("usage")}>
        <${Icon} name="wallet" />
        Usage
      </a>
    </p>
  `;
}

/** Beside the word that nobody answers: how long that may have been so. */
function LastLive() {
  const { needs_you: needing, autonomous, delivered } = lastLive.value;
  const at = lastLiveAt();
  if (!at) return null;
  const counts = [
    [needing, "needed you"],
    [autonomous, "worked"],
    [delivered, "had delivered"],
  ];
  const words = counts.filter(([count]) => Number(count) > 0).map(([count, of]) => `${plain(count)} ${of}`);
  return html`
    <p class="last-live quiet">
      This page was last live at <time datetime=${new Date(at).toISOString()}>${moment(at)}</time>.${" "}
      ${words.length > 0 ? `Then ${words.join(", ")}.` : "No session was active then."}
    </p>
  `;
}

/** Below the word that nobody answers. @param {{refused: boolean}} props */
export function Unanswered({ refused }) {
  return html`
    ${!refused && html`<${Command} text="adsum up" />`}
    <${LastLive} />
  `;
}

/** The same beside an error of a view, where nothing has come since the page was opened. */
export function SinceWhen() {
  return known.value || linkState.value.phase === "live" ? null : html`<${LastLive} />`;
}
