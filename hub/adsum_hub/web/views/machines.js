// @ts-check
/** The hosts: who is heard and who is not, what is wrong and what to do, how each fares. */
import { useEffect, useId, useMemo } from "../vendor/preact-hooks.js";
import { computed, signal, useSignal } from "../vendor/signals.js";
import { moves } from "../address.js";
import { watchAges } from "../ages.js";
import { plain } from "../asks.js";
import { exact } from "../clock.js";
import { gapWords } from "../gaps.js";
import { linkState } from "../link.js";
import { faultsOf, machines, staff, tally } from "../machines.js";
import { conditionOf, farWords } from "../order.js";
import { hosts, known } from "../roster.js";
import { GROUPS, GROUP_LOOK } from "../states.js";
import { Age, Ghosts, Icon, Sentence, counted, html } from "./html.js";
import { REACH } from "./hosts.js";
import { Lazy } from "./lazy.js";
import { Limits, LimitsShort, Scan } from "./limits.js";
import { Command } from "./copy.js";
import { Unreachable } from "./notices.js";
import { HostWitnesses } from "./witnesses.js";

/** @import { Signal } from "../vendor/signals.js" */
/** @import { HostView } from "../wire.js" */
/** @import { Staff } from "../machines.js" */

/** Above this what the state of a machine says already is told at length only of those that are open. */
const FEW = 6;
/** From so many on there is something to look for. */
const MANY = 12;
/** More than anyone reads at once; the rest come on demand or by the search. */
const PAGE = 100;
/** Opens the dialog that adds one. */
const ADD = "#add";
/** A clock this far off misleads whoever compares times. */
const CLOCK_OFF_MS = 5000;
const NOBODY = { counts: { needs_you: 0, autonomous: 0, delivered: 0 }, agents: [] };

/** Which machines are open, by id. */
const open = signal(/** @type {ReadonlySet<string>} */ (new Set()));
const people = computed(staff);
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
    if (location.pathname !== "/hosts" || !ready) return;
    asked.value = location.hash === ADD ? "" : named();
    if (!asked.value) return;
    open.value = new Set([...open.peek(), asked.value]);
    requestAnimationFrame(() => document.querySelector(`[data-machine="${CSS.escape(asked.peek())}"]`)?.scrollIntoView({ block: "center" }));
  }, [moved, ready]);
  const adding = useSignal(false);
  useEffect(() => void (adding.value = location.hash === ADD), [moved]);
  const added = () => {
    adding.value = false;
    if (location.hash === ADD) history.replaceState(history.state, "", location.pathname);
  };
  return html`<section class="view machines" aria-labelledby="view-title">
    <header class="machines-head"><h2 id="view-title">Hosts</h2><button class="button" aria-haspopup="dialog" onClick=${() => (adding.value = true)}><${Icon} name="plus" />Add a machine</button></header>
    ${adding.value && html`<${Lazy} name="add_machine" quiet onClose=${added} />`}
    ${!ready && (["offline", "refused"].includes(linkState.value.phase) ? html`<${Unreachable} />` : html`<${Ghosts} words="Calling the hosts" />`)}
    ${ready && hosts.value.length === 0 && html`<${Nobody} />`}
    ${ready && hosts.value.length > 0 && html`<${Machines} sought=${sought} asked=${asked.value} />`}
  </section>`;
}

function Nobody() {
  return html`<div class="blank"><p>No machine reports to this hub yet. On the hub's own machine:</p><${Command} text="adsum up" /><p class="quiet">On any other, the line that <b>Add a machine</b> makes.</p></div>`;
}

/** @param {{sought: Signal<string>, asked: string}} props */
function Machines({ sought, asked }) {
  const { unwell, well } = machines(sought.value);
  const stranger = asked && !hosts.value.some(({ id }) => id === asked);
  return html`<${Totals} />
    ${stranger && html`<p class="quiet machine-stranger" role="status">There is no host <bdi>${plain(asked, 80)}</bdi> any more.</p>`}
    ${hosts.value.length > MANY && html`<label class="filter machine-seek"><${Icon} name="search" /><span class="sr">Find a host</span>
      <input type="search" placeholder="Find a host" autocomplete="off" spellcheck=${false} maxlength="200" value=${sought} onInput=${(/** @type {InputEvent} */ e) => (sought.value = /** @type {HTMLInputElement} */ (e.target).value)} /></label>`}
    ${unwell.length > 0 && html`<${List} name="unwell" title="With a problem" list=${unwell} />`}
    ${well.length > 0 && html`<${List} name="well" title="Well" list=${well} />`}
    ${unwell.length + well.length === 0 && html`<p class="nobody">No host is called that.</p>`}`;
}

/** All of them together. */
function Totals() {
  const all = hosts.value;
  const reach = tally(all.map((host) => host.reachability)).map(([word, count]) => `${count.toLocaleString()} ${word}`);
  const unwell = all.filter((host) => faultsOf(host).length > 0).length;
  const counts = { needs_you: 0, autonomous: 0, delivered: 0 };
  for (const host of all) {
    if (host.reachability === "offline") continue;
    const own = (people.value.get(host.id) ?? NOBODY).counts;
    for (const group of GROUPS) counts[group] += own[group];
  }
  const waiting = all.reduce((sum, host) => sum + (host.backlog ?? 0), 0);
  const versions = tally(all.map(({ version }) => version && plain(version, 40)));
  const reading = all.filter((host) => host.scan).length;
  return html`<dl class="totals">
    <div class="total"><dt>Hosts</dt><dd>${all.length.toLocaleString()}</dd><dd class="total-note">${reach.join(", ")}${unwell > 0 && `; ${unwell.toLocaleString()} with a problem`}</dd></div>
    <div class="total"><dt>Sessions</dt><dd>${(counts.needs_you + counts.autonomous + counts.delivered).toLocaleString()}</dd><dd class="total-note">${counts.needs_you} need you, ${counts.autonomous} working, ${counts.delivered} delivered</dd></div>
    <div class="total"><dt>Signals waiting</dt><dd>${waiting.toLocaleString()}</dd><dd class="total-note">${waiting > 0 ? "on the machines' disks" : "all of them are here"}</dd></div>
    <div class="total"><dt>${versions.length > 1 ? "Collectors" : "Collector"}</dt><dd>${versions.length === 0 ? "–" : versions.length === 1 ? versions[0][0] : counted(versions.length, "version")}</dd>
      <dd class="total-note">${versions.length > 1 && versions.slice(0, 3).map(([version, count]) => `${version} on ${count}`).join(", ")}${reading > 0 && `${versions.length > 1 ? "; " : ""}${reading} reading history`}</dd></div>
  </dl>`;
}

/** @param {{name: string, title: string, list: HostView[]}} props */
function List({ name, title, list }) {
  const limit = useSignal(PAGE);
  const shown = list.filter((host, n) => n < limit.value || open.value.has(host.id));
  return html`<section class="machine-list" data-name=${name} aria-labelledby=${`machines-${name}`}>
    <header class="machine-bar"><h3 id=${`machines-${name}`}>${title}<span class="machine-count">${list.length.toLocaleString()}</span></h3>
      <p class="machine-columns" aria-hidden="true"><span>Sessions</span><span>Lag</span><span>Waiting</span><span>Clock</span><span>Collector</span><span>Limits</span></p></header>
    <ul>${shown.map((host) => html`<${Machine} key=${host.id} host=${host} own=${people.value.get(host.id)} brief=${list.length > FEW} open=${open.value.has(host.id)} />`)}</ul>
    ${shown.length < list.length && html`<button class="more" onClick=${() => (limit.value += 2 * PAGE)}>Show more (${(list.length - shown.length).toLocaleString()} not shown)</button>`}
  </section>`;
}

/** One row; what is wrong stands there unasked, the rest when it is opened. @param {{host: HostView, own: Staff | undefined, brief: boolean, open: boolean}} props */
function Machine({ host, own = NOBODY, brief, open }) {
  const id = useId();
  const { icon, words } = REACH[host.reachability];
  const state = conditionOf(host);
  const name = plain(host.label);
  const faults = useMemo(() => faultsOf(host), [host]);
  const told = brief && !open ? faults.filter(({ known }) => !known) : faults;
  return html`<li class="machine" data-host=${host.id} data-machine=${host.id} data-reach=${faults.length > 0 && state === "live" ? "trouble" : state} data-open=${open}>
    <div class="machine-row">
      <h4><button class="host-head" aria-expanded=${open} aria-controls=${id} title=${`Last heartbeat ${exact(host.last_seen)}`} onClick=${() => toggle(host.id)}>
        <${Icon} name=${state === "trouble" ? "triangle-alert" : icon} /><bdi class="host-name">${name}</bdi>
        <span class="host-state">${words}${host.reachability !== "live" && html`, last seen <${Age} at=${host.last_seen} /> ago`}${host.via === "hub" && ", via hub"}</span><${Icon} name="chevron-down" /></button></h4>
      <${Groups} host=${host} own=${own} />
      <${Cell} name="Lag" value=${host.lag_ms == null ? "–" : `${host.lag_ms.toLocaleString()} ms`} />
      <${Cell} name="Waiting" value=${(host.backlog ?? 0).toLocaleString()} />
      <${Cell} name="Clock" value=${clockWords(host.clock_offset_ms ?? 0)} off=${Math.abs(host.clock_offset_ms ?? 0) > CLOCK_OFF_MS} />
      <${Cell} name="Collector" value=${host.version ? plain(host.version, 40) : "–"} />
      <${LimitsShort} limits=${host.limits ?? []} />
    </div>
    ${host.scan && html`<${Scan} scan=${host.scan} name=${name} />`}
    ${told.length > 0 && html`<ul class="faults">${told.map(({ title, text, commands }) => html`<li class="host-note" key=${title}>
      <p><b>${title}.</b> <${Sentence} text=${text} /></p>
      ${commands.length > 0 && html`<div class="commands"><span class="fault-where">Run on <bdi>${name}</bdi>:</span>${commands.map((command) => html`<${Command} key=${command} text=${command} />`)}</div>`}
    </li>`)}</ul>`}
    <div class="host-more" id=${id} hidden=${!open}>${open && html`<${Details} host=${host} own=${own} />`}</div>
  </li>`;
}

/** @param {{name: string, value: string, off?: boolean}} props */
function Cell({ name, value, off = false }) {
  return html`<span class="machine-cell" data-name=${name} data-off=${off}><span class="cell-name">${name} </span>${off && html`<${Icon} name="triangle-alert" />`}${value}</span>`;
}

/** @param {number} offset in ms @returns {string} with a sign, so that it is read without colours */
function clockWords(offset) {
  if (Math.abs(offset) < 1000) return "in step";
  return `${offset > 0 ? "+" : "−"}${farWords(offset)}`;
}

/** Each way leads to the list of those. @param {{host: HostView, own: Staff}} props */
function Groups({ host, own }) {
  const some = GROUPS.filter((group) => own.counts[group] > 0);
  return html`<span class="machine-cell machine-groups" data-name="Sessions"><span class="cell-name">Sessions </span>${some.length === 0 && "no sessions"}${some.map((group) => html`<a key=${group} data-group=${group} href=${`/list?host=${encodeURIComponent(host.label)}&group=${group}`} title=${GROUP_LOOK[group].title}><${Icon} name=${GROUP_LOOK[group].icon} />${own.counts[group].toLocaleString()}<span class="sr"> ${GROUP_LOOK[group].title} on ${plain(host.label)}</span></a>`)}</span>`;
}

/** @param {{host: HostView, own: Staff}} props */
function Details({ host, own }) {
  const witnesses = host.witnesses ?? [];
  return html`<div class="machine-parts">
    <section><h5>Witnesses</h5>${witnesses.length > 0 ? html`<${HostWitnesses} witnesses=${witnesses} />` : html`<p class="quiet">Its collector says nothing of its witnesses.</p>`}</section>
    <section><h5>Rate limits</h5>${(host.limits ?? []).length > 0 ? html`<${Limits} limits=${host.limits ?? []} />` : html`<p class="quiet">Its sessions have told of none.</p>`}
      <h5>Runs</h5><p class="quiet">${[host.version && `collector ${plain(host.version, 40)}`, ...own.agents.slice(0, 5)].filter(Boolean).join(", ") || "Not told."}${own.agents.length > 5 && ` and ${own.agents.length - 5} more`}</p></section>
    <section><h5>Delivery</h5><p class="host-collector">${counted(host.backlog ?? 0, "signal")} waiting${host.lag_ms != null && `, newest took ${host.lag_ms.toLocaleString()} ms`}. Last heartbeat <${Age} at=${host.last_seen} /> ago.</p>
      <${Losses} host=${host} />
      <p class="machine-id">id <code>${plain(host.id, 80)}</code></p></section>
  </div>`;
}

/** What of it will never be here. @param {{host: HostView}} props */
function Losses({ host: { gaps = [], set_aside = 0 } }) {
  if (gaps.length === 0 && set_aside === 0) return html`<p class="quiet">Nothing of it was lost.</p>`;
  return html`${[...gaps].reverse().map((gap) => html`<p class="host-lost" key=${gap.at + gap.reason}>${gapWords(gap)}</p>`)}
    ${set_aside > 0 && html`<p class="host-lost">${counted(set_aside, "entry was", "entries were")} set aside: unreadable, or sent by a copy of it.</p>`}`;
}
