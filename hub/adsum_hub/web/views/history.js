// @ts-check
/** The search for sessions that are over; one that is found opens as any other does. */
import { useEffect } from "../vendor/preact-hooks.js";
import { closePanel, openSession, opened, panel } from "../address.js";
import { plain } from "../asks.js";
import { askAgain, found, more, wanted, watchSearch } from "../past.js";
import { titleOf } from "./card.js";
import { Age, Ghosts, Icon, counted, html } from "./html.js";
import { Sheet } from "./sheet.js";
import { Spent } from "./spent.js";

/** @import { SessionView } from "../wire.js" */

export function HistoryPanel() {
  useEffect(watchSearch, []);
  const { phase, sessions, total, why } = found.value;
  return html`<${Sheet} name="history" title="History" wide onClose=${() => panel.value === "history" && closePanel()}>
    <label class="filter seek"><${Icon} name="search" /><span class="sr">Search sessions that are over</span>
      <input type="search" autofocus placeholder="Title, project, machine, branch …" autocomplete="off" spellcheck=${false} maxlength="200" value=${wanted} onInput=${(/** @type {InputEvent} */ e) => (wanted.value = /** @type {HTMLInputElement} */ (e.target).value)} />
    </label>
    <p class="sr" role="status">${phase === "shown" ? counted(total, "session") : ""}</p>
    ${phase === "failed" && html`<p class="log-failed" role="alert"><${Icon} name="triangle-alert" /><span>${why} ${sessions.length > 0 ? "Below is what was found before." : ""}</span>
      <button class="button" onClick=${askAgain}><${Icon} name="refresh-cw" />Try again</button></p>`}
    ${phase === "loading" && sessions.length === 0 && html`<${Ghosts} words="Searching" />`}
    ${phase === "shown" && sessions.length === 0 && html`<${NoMatch} />`}
    ${sessions.length > 0 && html`<ol class="results" aria-label="Latest first" aria-busy=${phase === "loading"} data-busy=${phase === "loading"}>${sessions.map((session) => html`<${Result} key=${session.id} session=${session} />`)}</ol>`}
    ${sessions.length > 0 && sessions.length < total && html`<button class="more" disabled=${phase === "loading"} onClick=${more}>Show more (${(total - sessions.length).toLocaleString()} not shown)</button>`}
  <//>`;
}

function NoMatch() {
  const { sought } = found.value;
  return html`<p class="nobody">${sought ? html`<span>No session matches “<bdi>${plain(sought)}</bdi>”.</span>` : "No session is over yet. Once one is, it is found here."}</p>`;
}

/** @param {{session: SessionView}} props */
function Result({ session }) {
  const { id, project, host, ended_at, updated_at, usage } = session;
  /** @param {MouseEvent} click */
  const onClick = (click) => {
    if (!(/** @type {Element} */ (click.target).closest("button")) && !getSelection()?.toString()) openSession(id);
  };
  return html`<li class="result" data-id=${id} onClick=${onClick}>
    <h3 class="title"><button class="row-open" aria-haspopup="dialog" aria-expanded=${opened.value === id} onClick=${() => openSession(id)}><bdi>${titleOf(session)}</bdi></button></h3>
    <span class="result-end"><span class="sr">ended </span><${Age} at=${ended_at ?? updated_at} /> ago</span>
    <ul class="meta">
      ${project && session.title && html`<li><${Icon} name="folder" /><bdi>${plain(project)}</bdi></li>`}
      <li><${Icon} name="server" /><bdi>${plain(host)}</bdi></li>
      ${usage && html`<${Spent} usage=${usage} />`}
    </ul>
  </li>`;
}
