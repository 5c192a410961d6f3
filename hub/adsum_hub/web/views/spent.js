// @ts-check
/** What one session used up, in the quiet line of its card. */
import { costOf, exactUsage, fullness, nearlyFull, short, tokensOf } from "../figures.js";
import { isOver } from "../states.js";
import { Bar, Icon, html } from "./html.js";

/** @import { SessionView, UsageView } from "../wire.js" */

/** Its dollars and tokens in the quiet line of a card. @param {{usage: UsageView}} props */
export function Spent({ usage }) {
  const tokens = tokensOf(usage);
  const words = [costOf(usage), tokens > 0 && `${short(tokens)} tokens`].filter(Boolean).join(" · ");
  return words && html`<li class="spent" title=${exactUsage(usage)}><${Icon} name="wallet" />${words}</li>`;
}

/** How full its context is, while it goes on. @param {{session: SessionView}} props */
export function Gauge({ session: { context, state } }) {
  const percent = context ? fullness(context) : undefined;
  if (!context || percent === undefined || isOver(state) || state.state === "archived") return null;
  const near = nearlyFull(percent);
  return html`<li class="gauge" data-near=${near} title=${`Context: ${context.tokens.toLocaleString()} of ${context.size?.toLocaleString()} tokens`}>
    ${near && html`<${Icon} name="triangle-alert" />`}<${Bar} percent=${percent} />${percent} % context<span class="sr"> full</span>
  </li>`;
}
