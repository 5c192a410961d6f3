// @ts-check
/** Every open request of a session with all that it holds. */
import { openRequests } from "../asks.js";
import { fullOf } from "../requests.js";
import { nameOf } from "./children.js";
import { Age, html } from "./html.js";

/** @import { ChildView, RequestView, SessionView } from "../wire.js" */
/** @import { Question } from "../requests.js" */

/** @param {{session: SessionView}} props */
export function Requests({ session }) {
  return openRequests(session).map(
    (request) => html`<${Request} key=${request.id} request=${request} family=${session.children ?? []} />`,
  );
}

/** @param {{request: RequestView, family: ChildView[]}} props */
function Request({ request, family }) {
  const { title, note, main, shell, questions, fields } = fullOf(request);
  return html`<article class="request" data-kind=${request.kind}>
    <header class="request-head"><h4>${title}</h4><span class="open-since">open for <${Age} at=${request.opened_at} /></span></header>
    ${request.agent_id && html`<p class="ask-note">asked by ${askerOf(request.agent_id, family)}</p>`}
    ${note && html`<p class="ask-note" dir="auto">${note}</p>`}
    ${main && html`<pre class="request-main" data-shell=${shell} dir="auto">${main}</pre>`}
    ${questions.map((question, i) => html`<${Asked} key=${i} question=${question} />`)}
    ${fields.length > 0 && html`<dl class="facts">${fields.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd class="raw" dir="auto">${text}</dd></div>`)}</dl>`}
  </article>`;
}

/** @param {string} id @param {ChildView[]} family */
export function askerOf(id, family) {
  const child = family.find((each) => each.id === id);
  return child ? nameOf(child) : "a subagent";
}

/** @param {{question: Question}} props */
function Asked({ question }) {
  return html`<div class="asked">
    <p class="asked-text" dir="auto">${question.text}</p>
    ${question.several && html`<p class="ask-note">more than one may be chosen</p>`}
    ${question.options.length > 0 && html`<ol class="answers">${question.options.map(
      ({ label, words }, i) => html`<li key=${i} dir="auto"><b>${label}</b>${words && html`<span>${words}</span>`}</li>`,
    )}</ol>`}
  </div>`;
}
