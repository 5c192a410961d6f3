// @ts-check
/** The live list by host or by project: a section each, the most urgent need first. */
import { useLayoutEffect, useMemo, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { Badge } from "../board/card.js";
import { clearFilters, filtering, filters } from "../core/filters.js";
import { counted, plain } from "../core/format.js";
import { storedSignal } from "../core/preferences.js";
import { countHere, readMembership, sameItems } from "../core/roster.js";
import { GROUP_LOOK, GROUPS, toneOf } from "../core/states.js";
import { AskLine, HostName, NoMatch, openFromRow, RowAge, RowLink, useSteadyOrder } from "./rows.js";
import { groupsOf } from "./state.js";
import { Age, html, Icon } from "../ui/html.js";

/** @import { Entry } from "../core/roster.js" */
/** @import { ListGroup } from "./state.js" */

/** @typedef {"host" | "project" | "agent"} By */

/** Beyond so many sections those that need nobody start folded. */
const MANY = 30;
/** So many rows of a section at first. */
const PAGE = 25;
/** Folds that are remembered; the oldest are forgotten. */
const MOST_FOLDS = 500;
/** Rows are drawn before their section comes into sight. */
const NEAR = "600px 0px";

const LOOK = {
  host: { title: "By host", icon: "server", none: "", one: "host" },
  project: { title: "By project", icon: "folder", none: "No project", one: "project" },
  agent: { title: "By agent", icon: "bot", none: "", one: "agent" },
};

/**
 * What the reader folded (true) or opened (false), by `host:ID` or `project:NAME`.
 * @type {import("../vendor/signals-core.js").Signal<Record<string, unknown>>}
 */
const folds = storedSignal("folds", {});

/** @param {By} by @param {ListGroup} section */
function foldName(by, { key }) {
  return `${by}:${key ?? ""}`;
}

/** @param {By} by @param {ListGroup} section @param {boolean} many */
function isFolded(by, section, many) {
  const said = Object.hasOwn(folds.value, foldName(by, section)) ? folds.value[foldName(by, section)] : undefined;
  return typeof said === "boolean" ? said : many && section.counts.needs_you === 0 && !filtering.value;
}

/** @param {By} by @param {ListGroup[]} sections @param {boolean} folded */
function fold(by, sections, folded) {
  const changed = Object.fromEntries(sections.map((section) => [foldName(by, section), folded]));
  const rest = Object.entries(folds.value).filter(([name]) => !Object.hasOwn(changed, name));
  const most = Math.max(MOST_FOLDS, sections.length);
  folds.value = Object.fromEntries([...rest, ...Object.entries(changed)].slice(-most));
}

/** @param {By} by */
function orderOf(by) {
  /** @type {ListGroup[]} */
  let before = [];
  return {
    make: () => (before = groupsOf(by, before)),
    same: sameItems,
    wanted: () => filters.value,
    moved: readMembership,
  };
}

/** @param {{by: By}} props */
export function View({ by }) {
  const how = useMemo(() => orderOf(by), [by]);
  const { held, place } = useSteadyOrder(how);
  const sections = held.value;
  const { title, one } = LOOK[by];
  const many = sections.length > MANY;
  const anyOpen = sections.some((section) => !isFolded(by, section, many));
  return html`
    <section class="view grouped" aria-labelledby="view-title">
      <header class="grouped-head">
        <h2 id="view-title">${title}</h2>
        <p class="grouped-count">${countWords(sections, one)}</p>
        ${sections.length > 1 && html`
          <button class="grouped-all" onClick=${() => fold(by, sections, anyOpen)}>
            ${anyOpen ? "Fold all" : "Unfold all"}
          </button>
        `}
      </header>
      <div class="groups" ref=${place}>
        ${sections.length === 0 && filtering.value ? html`
          <${NoMatch} onClear=${clearFilters} />
        ` : (
          sections.map((section, i) => html`
            <${Group}
              key=${foldName(by, section)}
              by=${by}
              section=${section}
              folded=${isFolded(by, section, many)}
              number=${i}
            />
          `)
        )}
      </div>
    </section>
  `;
}

/** @param {ListGroup[]} sections @param {string} one */
function countWords(sections, one) {
  const here = sections.reduce((sum, section) => sum + section.here.length, 0);
  const all = countHere();
  const sessions =
    filtering.value && here !== all
      ? `${here.toLocaleString()} of ${counted(all, "session")}`
      : counted(here, "session");
  const named = sections.filter(({ key }) => key !== null).length;
  return `${sessions}, ${counted(named, one)}`;
}

/** @param {{by: By, section: ListGroup, folded: boolean, number: number}} props */
function Group({ by, section, folded, number }) {
  const { icon, none } = LOOK[by];
  const heading = `group-${number}`;
  return html`
    <section class="group" data-offline=${section.offline} data-key=${section.key ?? ""} aria-labelledby=${heading}>
      <header class="group-head">
        <h3 id=${heading}>
          <button class="group-fold" aria-expanded=${!folded} onClick=${() => fold(by, [section], !folded)}>
            <${Icon} name=${folded ? "chevron-right" : "chevron-down"} />
            <${Icon} name=${section.offline ? "unplug" : icon} />
            <bdi>${section.name ? plain(section.name) : none}</bdi>
          </button>
        </h3>
        <${Standing} section=${section} />
      </header>
      ${!folded && html`<${Lines} by=${by} section=${section} />`}
    </section>
  `;
}

/** How many of its sessions stand where; of an offline host since when it is. @param {{section: ListGroup}} props */
function Standing({ section: { offline, host, counts, absent } }) {
  const late = host?.reachability === "late" && html`<li class="late">late</li>`;
  if (offline) {
    return html`
      <p class="group-off">
        offline
        ${host && html`
          , last seen <${Age} at=${host.last_seen} /> ago
        `}
        <span>${counted(absent.length, "session")}, not counted</span>
      </p>
    `;
  }
  return html`
    <ul class="group-counts">
      ${late}
      ${GROUPS.filter((group) => counts[group] > 0).map((group) => html`
        <li key=${group} data-group=${group} title=${GROUP_LOOK[group].title}>
          <${Icon} name=${GROUP_LOOK[group].icon} />
          ${counts[group].toLocaleString()}
          <span class="sr"> ${GROUP_LOOK[group].title}</span>
        </li>
      `)}
      ${absent.length > 0 && html`
        <li title="On hosts that are offline, not counted">
          <${Icon} name="unplug" />
          ${absent.length.toLocaleString()}
          <span class="sr"> on hosts that are offline</span>
        </li>
      `}
    </ul>
  `;
}

/** Far from what is seen only their room is kept. @param {{by: By, section: ListGroup}} props */
function Lines({ by, section }) {
  const room = useRef(/** @type {any} */ (null));
  const near = useSignal(false);
  const limit = useSignal(PAGE);
  useLayoutEffect(() => {
    const watch = new IntersectionObserver(
      (seen) =>
        (near.value = Boolean(seen.at(-1)?.isIntersecting) || room.current.contains(document.activeElement)),
      { rootMargin: NEAR },
    );
    watch.observe(room.current);
    return () => watch.disconnect();
  }, []);
  const all = [...section.here, ...section.absent];
  const drawn = all.slice(0, limit.value);
  const hidden = all.length - drawn.length;
  return html`
    <div class="group-room" ref=${room} style=${{ "--rows": drawn.length + (hidden > 0 ? 1 : 0) }}>
      ${near.value && html`
        <ul class="group-rows">
          ${drawn.map((entry) => html`
            <${Line} key=${entry.id} entry=${entry} by=${by} />
          `)}
        </ul>
        ${hidden > 0 && html`
          <button class="group-more" onClick=${() => (limit.value += 4 * PAGE)}>
            Show more (${hidden.toLocaleString()} not shown)
          </button>
        `}
      `}
    </div>
  `;
}

/** @param {{entry: Entry, by: By}} props */
function Line({ entry, by }) {
  const session = entry.view.value;
  const { state, project, branch } = session;
  return html`
    <li
      class="group-row"
      data-id=${session.id}
      data-need=${state.group === "needs_you"}
      data-tone=${toneOf(state)}
      data-state=${state.state}
      data-absent=${session.reachability === "offline"}
      onClick=${(/** @type {MouseEvent} */ click) => openFromRow(click, session.id)}
    >
      <${Badge} session=${session} />
      <span class="group-title">
        <${RowLink} entry=${entry} />
        <${AskLine} session=${session} />
      </span>
      <span class="group-where">
        ${by === "host" ? project && html`<bdi>${plain(project)}</bdi>` : html`<${HostName} session=${session} />`}
      </span>
      <span class="group-branch">${branch && html`<bdi>${plain(branch)}</bdi>`}</span>
      <span class="group-age">
        <${RowAge} session=${session} />
      </span>
    </li>
  `;
}
