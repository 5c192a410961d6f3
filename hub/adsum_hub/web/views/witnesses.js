// @ts-check
/** Who tells of a session or of a machine: when each was last heard, and what is wrong. */
import { plain } from "../asks.js";
import { capital, countsOf, isUnwell, nameOf, noteOf, problemOf, stateOf } from "../witnesses.js";
import { Age, Icon, Sentence, html } from "./html.js";

/** @import { HostWitness, SessionView } from "../wire.js" */

/** @param {{session: SessionView}} props */
export function SessionWitnesses({ session }) {
  const witnesses = session.witnesses ?? [];
  if (witnesses.length === 0) return html`<p class="quiet">Nothing is known of its witnesses.</p>`;
  return html`<ul class="witnesses">${witnesses.map((witness) => {
    const problem = problemOf(witness);
    return html`<li key=${witness.name} data-unwell=${Boolean(problem)}>
      <${Icon} name=${problem ? "triangle-alert" : "check"} />
      <span class="witness-name">${capital(nameOf(witness.name))}</span>
      <span class="witness-state">${problem && `${plain(witness.problem)}, `}<${Heard} at=${witness.heard_at} /></span>
    </li>`;
  })}</ul>`;
}

/** @param {{witnesses: HostWitness[]}} props */
export function HostWitnesses({ witnesses }) {
  return html`<ul class="witnesses">${witnesses.map((witness) => {
    const { icon, words } = stateOf(witness);
    const counts = countsOf(witness.counts ?? {});
    const silent = !witness.heard_at;
    return html`<li key=${witness.name} data-unwell=${isUnwell(witness)}>
      <${Icon} name=${icon} />
      <span class="witness-name">${capital(nameOf(witness.name))}</span>
      <span class="witness-state">${!(silent && words === "silent") && words !== "heard" && `${words}, `}<${Heard} at=${witness.heard_at ?? 0} />${counts && html`<span class="witness-counts"> · ${counts}</span>`}</span>
    </li>`;
  })}</ul>`;
}

/** The sentences of those that ask for someone. @param {{witnesses: HostWitness[]}} props */
export function Notes({ witnesses }) {
  return witnesses.filter(isUnwell).map(
    (witness) => html`<p class="host-note" key=${witness.name}><b>${capital(nameOf(witness.name))} ${stateOf(witness).words}.</b> <${Sentence} text=${noteOf(witness)} /></p>`,
  );
}

/** @param {{at: number}} props */
function Heard({ at }) {
  return at > 0 ? html`heard <${Age} at=${at} /> ago` : "never heard";
}
