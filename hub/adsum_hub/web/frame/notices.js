// @ts-check
/** The page when there is no list to show: loading, unreachable; and the banner over a list that is stale. */
import { moment, plain } from "../core/format.js";
import { linkState, retryNow, trouble } from "../core/link.js";
import { html, Icon, lazy, Sentence } from "../ui/html.js";

export const Empty = lazy(() => import("./empty.js"), "frame/empty");

export function Loading() {
  return html`
    <div class="loading" aria-busy="true">
      <p class="sr">Loading the sessions</p>
      ${[3, 2, 1].map((cards) => html`
        <div class="ghost-column" key=${cards}>
          ${Array.from({ length: cards }, (_, i) => html`
            <div class="ghost" key=${i}></div>
          `)}
        </div>
      `)}
    </div>
  `;
}

/** The hub has never answered since this page was opened. */
export function Unreachable() {
  const refused = linkState.value.phase === "refused";
  return html`
    <div class="notice" role="alert">
      <span class="notice-mark" data-bad>
        <${Icon} name="wifi-off" />
      </span>
      <h2>${refused ? "The hub refuses this address" : "No answer from the hub"}</h2>
      ${refused ? html`
        <p>
          It serves only pages opened at its own address, and this one is at <code>${location.origin}</code>. Open the
          address that <code>adsum up</code> printed.
        </p>
      ` : html`
        <p>
          Nothing answers at <code>${location.origin}</code>. Your agents are not affected: what they do is stored on
          their machines and will appear here once the hub runs.
        </p>
      `}
      <${Empty} part="Unanswered" quiet refused=${refused} />
      <${Retry} />
    </div>
  `;
}

/** @param {{at: number}} props */
function MomentTime({ at }) {
  return html`<time datetime=${new Date(at).toISOString()}>${moment(at)}</time>`;
}

/** The hub's own trouble; goes when the hub says that it is over. */
function Trouble() {
  if (!trouble.value) return null;
  const { problem, since, blind = false } = trouble.value;
  return html`
    <div class="banner" role="alert" data-mild=${!blind}>
      <${Icon} name=${blind ? "unplug" : "triangle-alert"} />
      <p>
        <strong>
          ${blind ? "The list stands still" : "Trouble"} since <${MomentTime} at=${since} />.
        </strong>${" "}
        <${Sentence} text=${plain(problem)} />
      </p>
    </div>
  `;
}

/** What stands below is old, or will be. */
export function StaleBanner() {
  const { phase, since } = linkState.value;
  if (phase !== "offline" && phase !== "refused") return html`<${Trouble} />`;
  return html`
    <div class="banner" role="alert">
      <${Icon} name="wifi-off" />
      <p>
        <strong>Not live.</strong> Last updated at <${MomentTime} at=${since} />.${" "}
        ${phase === "refused"
          ? "The hub refuses this page's address."
          : "The hub does not answer; nothing is lost meanwhile."}
      </p>
      <${Retry} />
    </div>
  `;
}

function Retry() {
  return html`
    <button class="button" onClick=${retryNow}>
      <${Icon} name="refresh-cw" />
      Try now
    </button>
  `;
}
