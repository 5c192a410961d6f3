// @ts-check
/** One of the board's three sections: its head with the count, its cards, what it says when empty. */
import { useMemo } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import { Card } from "./card.js";
import { filtering } from "../core/filters.js";
import { counted } from "../core/format.js";
import { countOf, shown } from "../core/roster.js";
import { countsByState, GROUP_LOOK, whyFirst } from "../core/states.js";
import { html, Icon } from "../ui/html.js";

/** @import { Entry } from "../core/roster.js" */
/** @import { Group } from "../wire.js" */

/** More cards than anyone reads at once; the rest come on demand or by the filter. */
const PAGE = 100;

/** @param {{group: Group}} props */
export function Section({ group }) {
  const { title, icon } = GROUP_LOOK[group];
  const present = shown[group].here.value;
  const absent = shown[group].absent.value;
  const limit = useSignal(PAGE);
  const hidden = Math.max(0, present.length - limit.value) + Math.max(0, absent.length - limit.value);
  const heading = `head-${group}`;
  return html`
    <section class="section" data-group=${group} aria-labelledby=${heading}>
      <header class="section-head">
        <${Icon} name=${icon} />
        <h2 id=${heading}>${title}</h2>
        <${Count} group=${group} />
      </header>
      <${Counts} group=${group} />
      <div class="scroll" tabindex="0" role="group" aria-labelledby=${heading}>
        ${present.length > 0 && html`
          <ul class="cards">${present.slice(0, limit.value).map((entry, i) => drawn(entry, i, group, present))}</ul>
        `}
        ${present.length === 0 && html`<${Nobody} group=${group} absent=${absent.length} />`}
        ${absent.length > 0 && html`
          <h3 class="absent-head">
            <${Icon} name="unplug" />
            On hosts that are offline
            <span class="absent-note">${counted(absent.length, "session")}, as last seen, not counted</span>
          </h3>
          <ul class="cards cards-absent">
            ${absent.slice(0, limit.value).map((entry) => html`
              <${Card} key=${entry.id} entry=${entry} />
            `)}
          </ul>
        `}
        ${hidden > 0 && html`
          <button class="more" onClick=${() => (limit.value += 2 * PAGE)}>
            Show more (${hidden.toLocaleString()} not shown)
          </button>
        `}
      </div>
    </section>
  `;
}

/** @param {Entry} entry @param {number} index @param {Group} group @param {Entry[]} list */
function drawn(entry, index, group, list) {
  const leads = group === "needs_you" && index === 0 && !filtering.value;
  // Only two cards' views are read here, so that a change of any other redraws just its card.
  const first = leads ? whyFirst(entry.view.value, list[1]?.view.value) : undefined;
  return html`<${Card} key=${entry.id} entry=${entry} first=${first} />`;
}

/** @param {{group: Group}} props */
export function Count({ group }) {
  const all = countOf(group);
  const left = shown[group].here.value.length;
  const words = filtering.value ? `${left} of ${all}` : all.toLocaleString();
  return html`<span class="count" data-none=${!left}>${words}</span>`;
}

/** Its states, each with its number. @param {{group: Group}} props */
function Counts({ group }) {
  const words = useMemo(() => computed(() => countsByState(shown[group].here.value.map(({ view }) => view.value))), []);
  return words.value && html`<p class="counts">${words.value}</p>`;
}

/** @param {{group: Group, absent: number}} props */
function Nobody({ group, absent }) {
  if (filtering.value) return html`<p class="nobody">No match here.</p>`;
  const working = countOf("autonomous");
  const text = {
    needs_you:
      working > 0
        ? `Nobody needs you. ${counted(working, "agent is", "agents are")} at work.`
        : "Nobody needs you.",
    autonomous: "Nobody is working.",
    delivered: "Nothing delivered yet.",
  }[group];
  const calm = group === "needs_you" && absent === 0;
  return html`
    <p class="nobody" data-calm=${calm}>
      ${group === "needs_you" && html`<${Icon} name="coffee" />`}
      ${text}
    </p>
  `;
}
