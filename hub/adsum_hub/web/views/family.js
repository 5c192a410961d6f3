// @ts-check
/** All that a session has started: those that run first, how long each took, how it ended. */
import { plain } from "../asks.js";
import { duration } from "../clock.js";
import { KIND, inOrder, nameOf, runs } from "./children.js";
import { Age, Icon, counted, html } from "./html.js";

/** @import { ChildView } from "../wire.js" */

const MOST = 200;
/** @type {Record<string, string>} */
const ENDED = { completed: "circle-check", failed: "octagon-x", killed: "x", stopped: "x", interrupted: "hand", orphaned: "unplug", running: "activity" };

/** over: their session is. @param {{list: ChildView[], over: boolean}} props */
export function Family({ list, over }) {
  const more = list.length - MOST;
  return html`<ul class="children family" aria-label=${`${counted(list.length, "child", "children")}, ${list.filter(runs).length} running`}>
    ${inOrder(list).slice(0, MOST).map((child) => html`<${Branch} key=${child.id} child=${child} over=${over} />`)}
    ${more > 0 && html`<li class="child-more">and ${more.toLocaleString()} more</li>`}
  </ul>`;
}

/** @param {{child: ChildView, over: boolean}} props */
function Branch({ child, over }) {
  const kind = Object.hasOwn(KIND, child.kind) ? KIND[child.kind] : { icon: "circle-dashed", words: plain(child.kind) };
  const type = child.description && child.type;
  return html`<li class="child" data-running=${runs(child)} data-status=${child.status}>
    <span class="child-kind"><${Icon} name=${kind.icon} /><span class="sr">${kind.words}</span></span>
    <span class="child-words"><bdi>${nameOf(child)}</bdi>${type && html`<span class="child-type"> <bdi>${plain(type)}</bdi></span>`}</span>
    <span class="child-status"><${Icon} name=${Object.hasOwn(ENDED, child.status) ? ENDED[child.status] : "circle-dashed"} /><${Ending} child=${child} over=${over} /></span>
  </li>`;
}

/** Of one that nobody told how it ended, the end is when it was last heard. @param {{child: ChildView, over: boolean}} props */
function Ending({ child, over }) {
  const { status, started_at: from, finished_at: to } = child;
  if (status === "orphaned") return html`<span title="Orphaned: nobody told how it ended"><span class="sr">orphaned, </span>${over || to == null ? "its session ended" : html`no word for <${Age} at=${to} />`}</span>`;
  const at = runs(child) ? from : (to ?? from);
  const took = from != null && to != null && to > from && `, took ${duration(to - from)}`;
  return html`<span>${plain(status)}${at != null && html` <${Age} at=${at} />${!runs(child) && " ago"}`}${took}</span>`;
}
