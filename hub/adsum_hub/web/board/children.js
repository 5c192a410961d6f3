// @ts-check
/** The children of a session: subagents, shells, monitors. A few of them on its card. */
import { counted, plain } from "../core/format.js";
import { Age, html, Icon } from "../ui/html.js";

/** @import { ChildView } from "../wire.js" */

/** @type {Record<string, {icon: string, words: string}>} */
export const CHILD_KINDS = {
  agent: { icon: "bot", words: "subagent" },
  shell: { icon: "square-terminal", words: "background shell" },
  monitor: { icon: "activity", words: "monitor" },
  workflow: { icon: "network", words: "workflow" },
  cron: { icon: "clock", words: "schedule" },
};

const ON_CARD = 4;

/** @param {ChildView} child */
export function runs(child) {
  return child.finished_at == null && child.status === "running";
}

/** Those that run first; within each, the hub's order. @param {ChildView[]} list */
export function runningFirst(list) {
  return [...list.filter(runs), ...list.filter((child) => !runs(child))];
}

/** How many there were, once none is left running. @param {ChildView[]} list */
export function finishedCount(list) {
  return list.some(runs) ? 0 : list.length;
}

/** On a card, as long as one of them runs. @param {{list: ChildView[]}} props */
export function Branches({ list }) {
  return list.some(runs) ? html`<${Tree} list=${list} />` : null;
}

/** @param {{list: ChildView[]}} props */
function Tree({ list }) {
  const more = list.length - ON_CARD;
  const running = list.filter(runs).length;
  return html`
    <ul class="children" aria-label=${`${counted(list.length, "child", "children")}, ${running} running`}>
      ${runningFirst(list)
        .slice(0, ON_CARD)
        .map((child) => html`
          <${Branch} key=${child.id} child=${child} />
        `)}
      ${more > 0 && html`<li class="child-more">and ${more.toLocaleString()} more</li>`}
    </ul>
  `;
}

/** @param {{child: ChildView}} props */
function Branch({ child }) {
  const kind = Object.hasOwn(CHILD_KINDS, child.kind)
    ? CHILD_KINDS[child.kind]
    : { icon: "circle-dashed", words: plain(child.kind) };
  return html`
    <li class="child" data-running=${runs(child)}>
      <span class="child-kind">
        <${Icon} name=${kind.icon} />
        <span class="sr">${kind.words}</span>
      </span>
      <bdi class="child-words" title=${child.description && plain(child.description)}>
        ${childName(child)}
      </bdi>
      ${child.status === "orphaned" ? html`<${Orphaned} child=${child} />` : html`<${Status} child=${child} />`}
    </li>
  `;
}

/** @param {{child: ChildView}} props */
function Status({ child }) {
  const running = runs(child);
  const at = running ? child.started_at : (child.finished_at ?? child.started_at);
  return html`
    <span class="child-status">
      ${plain(child.status)}
      ${at != null && html`
        ${" "}
        <${Age} at=${at} />
        ${!running && " ago"}
      `}
    </span>
  `;
}

/** Its end is when it was last heard. @param {{child: ChildView}} props */
function Orphaned({ child: { finished_at: at } }) {
  return html`
    <span class="child-status" title="Orphaned: how it ended is unknown">
      <${Icon} name="unplug" />
      <span class="sr">orphaned, </span>
      ${at == null ? (
        "its session ended"
      ) : html`
        no word for <${Age} at=${at} />
      `}
    </span>
  `;
}

/** @param {ChildView} child its task in words, else what it is */
export function childName({ description, type, kind }) {
  return plain(description || type || (Object.hasOwn(CHILD_KINDS, kind) ? CHILD_KINDS[kind].words : kind));
}
