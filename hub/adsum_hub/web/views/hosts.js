// @ts-check
/** The strip of hosts: every machine, whether it is heard, and what is wrong with it. */
import { useEffect, useId } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { watchAges } from "../ages.js";
import { plain } from "../asks.js";
import { exact } from "../clock.js";
import { gapWords } from "../gaps.js";
import { conditionOf, troubleOf } from "../order.js";
import { hosts } from "../roster.js";
import { Age, Icon, counted, html } from "./html.js";
import { Limits, LimitsShort, Scan } from "./limits.js";
import { HostWitnesses, Notes } from "./witnesses.js";

/** @import { HostView } from "../wire.js" */

const REACH = {
  live: { icon: "wifi", words: "live" },
  late: { icon: "clock", words: "late" },
  offline: { icon: "unplug", words: "offline" },
};
/** Machines named before the rest is folded into a count; those in trouble come first. */
const NAMED = 8;

export function Hosts() {
  const open = useSignal(false);
  const all = hosts.value;
  if (all.length === 0) return null;
  const unwell = all.filter((host) => conditionOf(host) !== "live").length;
  const reading = all.filter((host) => host.scan).length;
  const named = open.value ? all : all.slice(0, NAMED);
  const rest = all.slice(NAMED);
  const offline = rest.filter((host) => host.reachability === "offline").length;
  const folded = open.value ? "show fewer" : `${rest.length} more${offline > 0 ? `, ${offline} of them offline` : ""}`;
  return html`<section class="hosts" aria-labelledby="hosts-head" data-open=${open.value}>
    <h2 id="hosts-head" class="sr">Hosts</h2>
    <ul>${named.map((host) => html`<${Host} key=${host.id} host=${host} />`)}</ul>
    <button class="hosts-fold" aria-expanded=${open.value} onClick=${() => (open.value = !open.value)} data-rest=${rest.length}>
      <span class="hosts-all" data-unwell=${unwell > 0}><${Icon} name=${unwell > 0 ? "triangle-alert" : "server"} />${counted(all.length, "host")}, ${unwell > 0 ? `${unwell} with a problem` : "all live"}${reading > 0 && `, ${reading} reading history`}</span>
      <span class="hosts-rest">${folded}</span><${Icon} name="chevron-down" />
    </button>
  </section>`;
}

/** A button that opens the machine's witnesses; what is wrong stands there unasked. @param {{host: HostView}} props */
function Host({ host }) {
  const open = useSignal(false);
  const id = useId();
  useEffect(() => (open.value ? watchAges() : undefined), [open.value]);
  const { icon, words } = REACH[host.reachability];
  const trouble = plain(troubleOf(host));
  const state = conditionOf(host);
  const witnesses = host.witnesses ?? [];
  return html`<li class="host" data-host=${host.id} data-reach=${state} data-open=${open.value}>
    <button class="host-head" aria-expanded=${open.value} aria-controls=${id} title=${`Last heartbeat ${exact(host.last_seen)}`} onClick=${() => (open.value = !open.value)}>
      <${Icon} name=${state === "trouble" ? "triangle-alert" : icon} />
      <bdi class="host-name">${plain(host.label)}</bdi>
      <span class="host-state">${words}${host.reachability !== "live" && html`, last seen <${Age} at=${host.last_seen} /> ago`}</span>
      ${host.reachability === "live" && html`<span class="host-count">${host.sessions ?? 0}<span class="sr"> sessions</span></span>`}
      <${LimitsShort} limits=${host.limits ?? []} />
      <${Icon} name="chevron-down" />
    </button>
    ${host.scan && html`<${Scan} scan=${host.scan} name=${plain(host.label)} />`}
    ${trouble && html`<p class="host-trouble">${trouble}</p>`}
    <${Notes} witnesses=${witnesses} />
    <div class="host-more" id=${id} hidden=${!open.value}>
      ${open.value && html`${witnesses.length > 0 ? html`<${HostWitnesses} witnesses=${witnesses} />` : html`<p class="quiet">Its collector says nothing of its witnesses.</p>`}
        <${Limits} limits=${host.limits ?? []} />
        <${Losses} host=${host} />
        <p class="host-collector">${host.version ? `Collector ${plain(host.version)}, ` : ""}${counted(host.backlog ?? 0, "signal")} waiting${host.lag_ms != null ? `, newest took ${host.lag_ms.toLocaleString()} ms` : ""}</p>`}
    </div>
  </li>`;
}

/** What of it will never be here. @param {{host: HostView}} props */
function Losses({ host: { gaps = [], set_aside = 0 } }) {
  return html`${[...gaps].reverse().map((gap) => html`<p class="host-lost" key=${gap.at + gap.reason}>${gapWords(gap)}</p>`)}
    ${set_aside > 0 && html`<p class="host-lost">${counted(set_aside, "entry was", "entries were")} set aside: unreadable, or sent by a copy of it.</p>`}`;
}
