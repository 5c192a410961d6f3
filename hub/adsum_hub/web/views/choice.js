// @ts-check
/** A row of a few to choose one from. */
import { html } from "./html.js";

/** One of a few: arrow keys change it. @param {{name: string, legend: string, chosen: any, options: [any, string][], onChoose: (value: any) => void}} props */
export function Choice({ name, legend, chosen, options, onChoose }) {
  return html`<fieldset class="choice"><legend class="sr">${legend}</legend>${options.map(
    ([value, words]) => html`<label key=${value}><input type="radio" name=${name} checked=${chosen === value} onChange=${() => onChoose(value)} /><span>${words}</span></label>`,
  )}</fieldset>`;
}
