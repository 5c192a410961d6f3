// @ts-check
/** What one session used up, by kind; how full its context is. */
import { costOf, costSource, fullness, nearlyFull, tokensOf } from "../figures.js";
import { Bar, Icon, html } from "./html.js";

/** @import { ContextView, SessionView, UsageView } from "../wire.js" */

/** @param {{session: SessionView}} props */
export function UsageFacts({ session: { usage, context } }) {
  const cost = usage && costOf(usage);
  return html`<dl class="facts used">
    ${cost && html`<div class="used-cost"><dt>cost</dt><dd><b>${cost}</b>, ${costSource(usage)}</dd></div>`}
    ${usage && html`<${Kinds} usage=${usage} />`}
    ${context && html`<${Context} context=${context} />`}
  </dl>`;
}

/** @param {{usage: UsageView}} props */
function Kinds({ usage }) {
  const all = tokensOf(usage);
  /** @type {[string, number | undefined][]} */
  const kinds = [["input", usage.input_tokens], ["output", usage.output_tokens], ["cache read", usage.cache_read_tokens], ["cache written", usage.cache_write_tokens]];
  return html`${all > 0 && html`<div><dt>tokens</dt><dd class="amount">${all.toLocaleString()}</dd></div>`}
    ${kinds.map(([name, count]) => count ? html`<div class="used-kind" key=${name}><dt>${name}</dt><dd><${Bar} percent=${(100 * count) / all} /><span class="amount">${count.toLocaleString()}</span></dd></div>` : null)}
    ${usage.web_searches ? html`<div><dt>web searches</dt><dd class="amount">${usage.web_searches.toLocaleString()}</dd></div>` : null}`;
}

/** @param {{context: ContextView}} props */
function Context({ context }) {
  const percent = fullness(context);
  const near = percent !== undefined && nearlyFull(percent);
  return html`<div class="used-context" data-near=${near}><dt>context</dt><dd>
    ${percent !== undefined && html`<${Bar} percent=${percent} />`}<span class="amount">${near && html`<${Icon} name="triangle-alert" />`}${context.tokens.toLocaleString()}${context.size ? ` of ${context.size.toLocaleString()}` : ""} tokens${percent === undefined ? "" : `, ${percent} % full`}</span>
  </dd></div>`;
}
