// @ts-check
/** What was said last, as far as the privacy level of its machine lets it out. */
import { plain } from "../asks.js";
import { isNew } from "../states.js";
import { html } from "./html.js";
import { Part } from "./part.js";

/** @import { SessionView } from "../wire.js" */

/** Its own last words, where the state brings them along. @param {SessionView} session */
function saidBy({ state: { context } }) {
  const said = context?.message ?? context?.last_message ?? context?.error;
  return typeof said === "string" ? said.trim() : "";
}

/** @param {{session: SessionView}} props */
export function Said({ session }) {
  const said = saidBy(session);
  return said && html`<blockquote class="said" dir="auto">${plain(said)}</blockquote>`;
}

/** By either; not again what its state says already. @param {{session: SessionView}} props */
export function Words({ session }) {
  const prompt = session.last_prompt?.trim();
  const answer = session.last_answer?.trim();
  if (!prompt && !answer) return isNew(session.state) || saidBy(session) ? null : html`<${Unheard} />`;
  const quoted = answer === saidBy(session);
  if (!prompt && quoted) return null;
  return html`<${Part} part="words" title="Said last">
    ${prompt && html`<h4 class="said-by">You</h4><blockquote class="said" dir="auto">${plain(prompt)}</blockquote>`}
    ${answer && !quoted && html`<h4 class="said-by">Agent</h4><blockquote class="said" dir="auto">${plain(answer)}</blockquote>`}
  <//>`;
}

function Unheard() {
  return html`<${Part} part="words" title="Said last"><p class="quiet">Not known here. Either no witness has told of a prompt or an answer, or its machine keeps words to itself (privacy level “metadata”).</p><//>`;
}
