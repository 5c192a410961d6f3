// @ts-check
/** Buttons that put a session aside, and the words that this was done, with the way back. */
import { me } from "../core/api.js";
import { done, putAside, undo } from "../core/attention.js";
import { titleOf } from "../core/states.js";
import { html, Icon } from "../ui/html.js";

/** @import { Verb } from "../core/attention.js" */
/** @import { SessionView } from "../wire.js" */

/** @type {Record<Verb, {title: string, icon: string, says: string}>} */
const WAYS = {
  dismiss: { title: "Dismiss", icon: "check", says: "dismissed until something happens there" },
  archive: { title: "Archive", icon: "archive", says: "archived until something happens there" },
  restore: { title: "Put back", icon: "history", says: "back on the list" },
};

/** None for who may only look. @param {{session: SessionView, words?: boolean}} props words: beside the icons */
export function AsideWays({ session, words = false }) {
  if (me.value?.role === "viewer") return null;
  const aside = session.state.state === "archived";
  /** @type {Verb[]} */
  const verbs = aside ? ["restore"] : ["dismiss", "archive"];
  return verbs.map((verb) => html`
    <button
      key=${verb}
      class="way"
      title=${`${WAYS[verb].title}, until something happens there`}
      onClick=${() => putAside(session.id, titleOf(session), verb)}
    >
      <${Icon} name=${WAYS[verb].icon} />
      <span class=${words ? "way-words" : "sr"}>${WAYS[verb].title}</span>
    </button>
  `);
}

/** A modal sheet makes all else inert, so it has one of its own. */
export function Said() {
  if (!done.value) return null;
  const { title, verb, why } = done.value;
  return html`
    <div class="put-aside" role="status" data-bad=${why !== undefined}>
      <p>
        <bdi>${title}</bdi>${" "}
        ${why === undefined ? `is ${WAYS[verb].says}.` : `stays as it is. ${why}`}
      </p>
      ${why === undefined && verb !== "restore" && html`<button class="button" onClick=${undo}>Undo</button>`}
    </div>
  `;
}
