// @ts-check
/** The hosts: which of them report, what is wrong and what to do, how each is doing. */
import { useEffect, useId, useMemo } from "../vendor/preact-hooks.js";
import { computed, signal } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import { bytes, capital, counted, duration, exact, limitName, nearlyFull, plain } from "../core/format.js";
import {
  CLOCK_OFF_MS,
  conditionOf,
  gapWords,
  isUnwell,
  shareOf,
  witnessName,
  witnessState,
} from "../core/hosts.js";
import { linkState } from "../core/link.js";
import { moves } from "../core/navigation.js";
import { hosts, known } from "../core/roster.js";
import { pathTo, viewOf } from "../core/routes.js";
import { GROUP_LOOK, GROUPS } from "../core/states.js";
import { Unreachable } from "../frame/notices.js";
import { countEach, faultsOf, hostsFound, peopleByHost, watchAges } from "./state.js";
import { LimitsShort, REACH, useReset } from "./strip.js";
import { Command, Heard } from "../ui/controls.js";
import { Age, Bar, Ghosts, html, Icon, lazy, Sentence, Until } from "../ui/html.js";

/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { Staff } from "./state.js" */
/** @import { HostView, HostWitness, RateLimitView, ScanProgress } from "../wire.js" */

const AddMachine = lazy(() => import("./add_machine.js"), "hosts/add_machine", "ui/sheet");
/** Above this what the state of a machine says already is told at length only of those that are open. */
const FEW = 6;
/** From so many on there is something to look for. */
const MANY = 12;
/** More than anyone reads at once; the rest come on demand or by the search. */
const PAGE = 100;
/** Opens the dialog that adds one. */
const ADD = "#add";
const NOBODY = { counts: { needs_you: 0, autonomous: 0, delivered: 0 }, agents: [] };
/** Which machines are open, by id. */
const open = signal(/** @type {ReadonlySet<string>} */ (new Set()));
const people = computed(peopleByHost);
const anyOpen = computed(() => open.value.size > 0);

/** The machine that the address names. */
function named() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

/** @param {string} id */
function toggle(id) {
  const ids = new Set(open.peek());
  const opens = !ids.delete(id);
  if (opens) ids.add(id);
  open.value = ids;
  const address = new URL(location.href);
  address.hash = opens ? encodeURIComponent(id) : "";
  history.replaceState(history.state, "", address);
}

export function View() {
  const sought = useSignal("");
  const asked = useSignal("");
  useEffect(() => (anyOpen.value ? watchAges() : undefined), [anyOpen.value]);
  useEffect(() => () => void (open.value = new Set()), []);
  // The address names another one, or there is now one that it named before.
  const moved = moves.value;
  const ready = known.value;
  useEffect(() => {
    if (viewOf(location.pathname) !== "hosts" || !ready) return;
    asked.value = location.hash === ADD ? "" : named();
    if (!asked.value) return;
    open.value = new Set([...open.peek(), asked.value]);
    requestAnimationFrame(() =>
      document.querySelector(`[data-machine="${CSS.escape(asked.peek())}"]`)?.scrollIntoView({ block: "center" }),
    );
  }, [moved, ready]);
  const adding = useSignal(false);
  useEffect(() => void (adding.value = location.hash === ADD), [moved]);
  const added = () => {
    adding.value = false;
    if (location.hash === ADD) history.replaceState(history.state, "", location.pathname);
  };
  return html`
    <section class="view machines" aria-labelledby="view-title">
      <header class="machines-head">
        <h2 id="view-title">Hosts</h2>
        <button class="button" aria-haspopup="dialog" onClick=${() => (adding.value = true)}>
          <${Icon} name="plus" />
          Add a machine
        </button>
      </header>
      ${adding.value && html`<${AddMachine} quiet onClose=${added} />`}
      ${!ready &&
        (["offline", "refused"].includes(linkState.value.phase) ? html`
          <${Unreachable} />
        ` : html`
          <${Ghosts} words="Loading the hosts" />
        `)}
      ${ready && hosts.value.length === 0 && html`<${Nobody} />`}
      ${ready && hosts.value.length > 0 && html`<${Machines} sought=${sought} asked=${asked.value} />`}
    </section>
  `;
}

function Nobody() {
  return html`
    <div class="blank">
      <p>No machine reports to this hub yet. On the hub's own machine:</p>
      <${Command} text="adsum up" />
      <p class="quiet">
        On any other, run the command that <b>Add a machine</b> creates.
      </p>
    </div>
  `;
}

/** @param {{sought: Signal<string>, asked: string}} props */
function Machines({ sought, asked }) {
  const { unwell, well } = hostsFound(sought.value);
  const stranger = asked && !hosts.value.some(({ id }) => id === asked);
  return html`
    <${Totals} />
    ${stranger && html`
      <p class="quiet machine-stranger" role="status">
        There is no host <bdi>${plain(asked, 80)}</bdi> (any more).
      </p>
    `}
    ${hosts.value.length > MANY && html`
      <label class="filter machine-seek">
        <${Icon} name="search" />
        <span class="sr">Find a host</span>
        <input
          type="search"
          placeholder="Find a host"
          autocomplete="off"
          spellcheck=${false}
          maxlength="200"
          value=${sought}
          onInput=${(/** @type {InputEvent} */ e) =>
            (sought.value = /** @type {HTMLInputElement} */ (e.target).value)
          }
        />
      </label>
    `}
    ${unwell.length > 0 && html`<${List} name="unwell" title="With a problem" list=${unwell} />`}
    ${well.length > 0 && html`<${List} name="well" title="Well" list=${well} />`}
    ${unwell.length + well.length === 0 && html`<p class="nobody">No host matches.</p>`}
  `;
}

/** All of them together. */
function Totals() {
  const all = hosts.value;
  const reach = countEach(all.map((host) => host.reachability)).map(
    ([word, count]) => `${count.toLocaleString()} ${word}`,
  );
  const unwell = all.filter((host) => faultsOf(host).length > 0).length;
  const counts = { needs_you: 0, autonomous: 0, delivered: 0 };
  for (const host of all) {
    if (host.reachability === "offline") continue;
    const own = (people.value.get(host.id) ?? NOBODY).counts;
    for (const group of GROUPS) counts[group] += own[group];
  }
  const waiting = all.reduce((sum, host) => sum + (host.backlog ?? 0), 0);
  const versions = countEach(all.map(({ version }) => version && plain(version, 40)));
  const reading = all.filter((host) => host.scan).length;
  return html`
    <dl class="totals">
      <div class="total">
        <dt>Hosts</dt>
        <dd>${all.length.toLocaleString()}</dd>
        <dd class="total-note">
          ${reach.join(", ")}
          ${unwell > 0 && `; ${unwell.toLocaleString()} with a problem`}
        </dd>
      </div>
      <div class="total">
        <dt>Sessions</dt>
        <dd>${(counts.needs_you + counts.autonomous + counts.delivered).toLocaleString()}</dd>
        <dd class="total-note">
          ${counts.needs_you} need you, ${counts.autonomous} working, ${counts.delivered} delivered
        </dd>
      </div>
      <div class="total">
        <dt>Signals waiting</dt>
        <dd>${waiting.toLocaleString()}</dd>
        <dd class="total-note">${waiting > 0 ? "on the machines' disks" : "none"}</dd>
      </div>
      <div class="total">
        <dt>${versions.length > 1 ? "Collectors" : "Collector"}</dt>
        <dd>
          ${versions.length === 0
            ? "–"
            : versions.length === 1
              ? versions[0][0]
              : counted(versions.length, "version")}
        </dd>
        <dd class="total-note">
          ${versions.length > 1 &&
            versions
              .slice(0, 3)
              .map(([version, count]) => `${version} on ${count}`)
              .join(", ")}
          ${reading > 0 && `${versions.length > 1 ? "; " : ""}${reading} reading history`}
        </dd>
      </div>
    </dl>
  `;
}

/** @param {{name: string, title: string, list: HostView[]}} props */
function List({ name, title, list }) {
  const limit = useSignal(PAGE);
  const shown = list.filter((host, n) => n < limit.value || open.value.has(host.id));
  return html`
    <section class="machine-list" data-name=${name} aria-labelledby=${`machines-${name}`}>
      <header class="machine-bar">
        <h3 id=${`machines-${name}`}>
          ${title}
          <span class="machine-count">${list.length.toLocaleString()}</span>
        </h3>
        <p class="machine-columns" aria-hidden="true">
          <span>Sessions</span>
          <span>Lag</span>
          <span>Waiting</span>
          <span>Clock</span>
          <span>Collector</span>
          <span>Limits</span>
        </p>
      </header>
      <ul>
        ${shown.map((host) => html`
          <${Machine}
            key=${host.id}
            host=${host}
            own=${people.value.get(host.id)}
            brief=${list.length > FEW}
            open=${open.value.has(host.id)}
          />
        `)}
      </ul>
      ${shown.length < list.length && html`
        <button class="more" onClick=${() => (limit.value += 2 * PAGE)}>
          Show more (${(list.length - shown.length).toLocaleString()} not shown)
        </button>
      `}
    </section>
  `;
}

/**
 * One row; what is wrong stands there unasked, the rest when it is opened.
 * @param {{host: HostView, own: Staff | undefined, brief: boolean, open: boolean}} props
 */
function Machine({ host, own = NOBODY, brief, open }) {
  const id = useId();
  const { icon, words } = REACH[host.reachability];
  const state = conditionOf(host);
  const name = plain(host.label);
  const faults = useMemo(() => faultsOf(host), [host]);
  const told = brief && !open ? faults.filter(({ known }) => !known) : faults;
  return html`
    <li
      class="machine"
      data-host=${host.id}
      data-machine=${host.id}
      data-reach=${faults.length > 0 && state === "live" ? "trouble" : state}
      data-open=${open}
    >
      <div class="machine-row">
        <h4>
          <button
            class="host-head"
            aria-expanded=${open}
            aria-controls=${id}
            title=${`Last heartbeat ${exact(host.last_seen)}`}
            onClick=${() => toggle(host.id)}
          >
            <${Icon} name=${state === "trouble" ? "triangle-alert" : icon} />
            <bdi class="host-name">${name}</bdi>
            <span class="host-state">
              ${words}
              ${host.reachability !== "live" && html`
                , last seen <${Age} at=${host.last_seen} /> ago
              `}
              ${host.via === "hub" && ", via hub"}
            </span>
            <${Icon} name="chevron-down" />
          </button>
        </h4>
        <${Groups} host=${host} own=${own} />
        <${Cell} name="Lag" value=${host.lag_ms == null ? "–" : lagWords(host.lag_ms)} />
        <${Cell} name="Waiting" value=${(host.backlog ?? 0).toLocaleString()} />
        <${Cell}
          name="Clock"
          value=${clockWords(host.clock_offset_ms ?? 0)}
          off=${Math.abs(host.clock_offset_ms ?? 0) > CLOCK_OFF_MS}
        />
        <${Cell} name="Collector" value=${host.version ? plain(host.version, 40) : "–"} />
        <${LimitsShort} limits=${host.limits ?? []} />
      </div>
      ${host.scan && html`<${Scan} scan=${host.scan} name=${name} />`}
      ${told.length > 0 && html`
        <ul class="faults">
          ${told.map(({ title, text, commands }) => html`
            <li class="host-note" key=${title}>
              <p>
                <b>${title}.</b> <${Sentence} text=${text} />
              </p>
              ${commands.length > 0 && html`
                <div class="commands">
                  <span class="fault-where">
                    Run on <bdi>${name}</bdi>:
                  </span>
                  ${commands.map((command) => html`
                    <${Command} key=${command} text=${command} />
                  `)}
                </div>
              `}
            </li>
          `)}
        </ul>
      `}
      <div class="host-more" id=${id} hidden=${!open}>
        ${open && html`<${Details} host=${host} own=${own} />`}
      </div>
    </li>
  `;
}

/** @param {{name: string, value: string, off?: boolean}} props */
function Cell({ name, value, off = false }) {
  return html`
    <span class="machine-cell" data-name=${name} data-off=${off}>
      <span class="cell-name">${name} </span>
      ${off && html`<${Icon} name="triangle-alert" />`}
      ${value}
    </span>
  `;
}

/** @param {number} ms */
function lagWords(ms) {
  return ms < 10_000 ? `${ms.toLocaleString()} ms` : duration(ms);
}

/** @param {number} offset in ms @returns {string} with a sign, so that it is read without colours */
function clockWords(offset) {
  if (Math.abs(offset) < 1000) return "in step";
  return `${offset > 0 ? "+" : "−"}${duration(Math.abs(offset))}`;
}

/** Each way leads to the list of those. @param {{host: HostView, own: Staff}} props */
function Groups({ host, own }) {
  const some = GROUPS.filter((group) => own.counts[group] > 0);
  return html`
    <span class="machine-cell machine-groups" data-name="Sessions">
      <span class="cell-name">Sessions </span>
      ${some.length === 0 && "no sessions"}
      ${some.map((group) => html`
        <a
          key=${group}
          data-group=${group}
          href=${`${pathTo("list")}?host=${encodeURIComponent(host.label)}&group=${group}`}
          title=${GROUP_LOOK[group].title}
        >
          <${Icon} name=${GROUP_LOOK[group].icon} />
          ${own.counts[group].toLocaleString()}
          <span class="sr">
            ${" "}
            ${GROUP_LOOK[group].title} on ${plain(host.label)}
          </span>
        </a>
      `)}
    </span>
  `;
}

/** @param {{host: HostView, own: Staff}} props */
function Details({ host, own }) {
  const witnesses = host.witnesses ?? [];
  return html`
    <div class="machine-parts">
      <section>
        <h5>Witnesses</h5>
        ${witnesses.length > 0 ? html`
          <${HostWitnesses} witnesses=${witnesses} />
        ` : html`
          <p class="quiet">Its collector reports no witnesses.</p>
        `}
      </section>
      <section>
        <h5>Rate limits</h5>
        ${(host.limits ?? []).length > 0 ? html`
          <${Limits} limits=${host.limits ?? []} />
        ` : html`
          <p class="quiet">Its sessions have reported none.</p>
        `}
        <h5>Runs</h5>
        <p class="quiet">
          ${[host.version && `collector ${plain(host.version, 40)}`, ...own.agents.slice(0, 5)]
            .filter(Boolean)
            .join(", ") || "Unknown."}
          ${own.agents.length > 5 && ` and ${own.agents.length - 5} more`}
        </p>
      </section>
      <section>
        <h5>Delivery</h5>
        <p class="host-collector">
          ${counted(host.backlog ?? 0, "signal")} waiting
          ${host.lag_ms != null && `, newest took ${lagWords(host.lag_ms)}`}. Last heartbeat${" "}
          <${Age} at=${host.last_seen} /> ago.
        </p>
        <${Losses} host=${host} />
        <p class="machine-id">
          id <code>${plain(host.id, 80)}</code>
        </p>
      </section>
    </div>
  `;
}

/** What of it will never be here. @param {{host: HostView}} props */
function Losses({ host: { gaps = [], set_aside = 0 } }) {
  if (gaps.length === 0 && set_aside === 0) return html`<p class="quiet">Nothing was lost.</p>`;
  return html`
    ${[...gaps].reverse().map((gap) => html`
      <p class="host-lost" key=${gap.at + gap.reason}>
        ${gapWords(gap)}
      </p>
    `)}
    ${set_aside > 0 && html`
      <p class="host-lost">
        ${counted(set_aside, "entry was", "entries were")} set aside: unreadable, or sent by a copy of it.
      </p>
    `}
  `;
}

/** At length, where the machine is opened. @param {{limits: RateLimitView[]}} props */
export function Limits({ limits }) {
  return (
    limits.length > 0 && html`
      <ul class="limits" aria-label="Rate limits">
        ${limits.map((limit) => html`
          <${LimitRow} key=${(limit.agent ?? "") + limit.name} limit=${limit} />
        `)}
      </ul>
    `
  );
}

/** @param {{limit: RateLimitView}} props */
function LimitRow({ limit: { name, used_percent, resets_at, agent = "" } }) {
  const over = useReset(resets_at);
  const near = !over && nearlyFull(used_percent);
  return html`
    <li data-near=${near}>
      <span class="witness-name">${agent && `${plain(agent)}: `}${plain(limitName(name))}</span>
      <${Bar} percent=${over ? 0 : used_percent} />
      <span class="witness-state">
        ${over ? (
          "has been reset; not reported since"
        ) : html`
          ${near && html`<${Icon} name="triangle-alert" />`}
          ${Math.round(used_percent)} %
          ${resets_at ? html`
            , resets in <${Until} at=${resets_at} />
          ` : (
            ""
          )}
        `}
      </span>
    </li>
  `;
}

/** @param {{scan: ScanProgress, name: string}} props */
export function Scan({ scan, name }) {
  const { files, files_done, bytes: all, bytes_done, bytes_per_s = 0, left_s = null } = scan;
  const percent = shareOf(scan);
  const words = [
    all > 0 ? `${files_done.toLocaleString()} of ${files.toLocaleString()} files` : "looking for it",
    all > 0 && `${bytes(bytes_done)} of ${bytes(all)}`,
    bytes_per_s > 0 && `${bytes(bytes_per_s)}/s`,
    left_s != null && left_s >= 1 && `${duration(left_s * 1000)} left`,
  ]
    .filter(Boolean)
    .join(", ");
  return html`
    <div class="scan">
      <p>
        Reading its history, ${percent} %: ${words}
      </p>
      <div
        role="progressbar"
        aria-label=${`${name} reads its history`}
        aria-valuemin="0"
        aria-valuemax="100"
        aria-valuenow=${percent}
        aria-valuetext=${`${percent} %, ${words}`}
      >
        <${Bar} percent=${percent} />
      </div>
    </div>
  `;
}

/** @param {{witnesses: HostWitness[]}} props */
export function HostWitnesses({ witnesses }) {
  return html`
    <ul class="witnesses">
      ${witnesses.map((witness) => {
        const { icon, words } = witnessState(witness);
        const counts = countsOf(witness.counts ?? {});
        const silent = !witness.heard_at;
        return html`
          <li key=${witness.name} data-unwell=${isUnwell(witness)}>
            <${Icon} name=${icon} />
            <span class="witness-name">${capital(witnessName(witness.name))}</span>
            <span class="witness-state">
              ${!(silent && words === "silent") && words !== "heard" && `${words}, `}
              <${Heard} at=${witness.heard_at ?? 0} />
              ${counts && html`<span class="witness-counts"> · ${counts}</span>`}
            </span>
          </li>
        `;
      })}
    </ul>
  `;
}

/**
 * @param {Record<string, number>} counts
 * @returns {string} such as "unreadable line × 2, too long × 1", each unbroken
 */
function countsOf(counts) {
  return Object.entries(counts)
    .map(([cause, times]) => `${plain(cause).replaceAll("_", " ")}\u00a0\u00d7\u00a0${times.toLocaleString()}`)
    .join(", ");
}
