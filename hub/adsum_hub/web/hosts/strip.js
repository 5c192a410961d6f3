// @ts-check
/** The strip of hosts above the list: those with a problem first. */
import { useMemo } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals-core.js";
import { capital, counted, exact, limitName, limitShort, nearlyFull, plain } from "../core/format.js";
import { conditionOf, isUnwell, shareOf, troubleOf, witnessName, witnessState } from "../core/hosts.js";
import { hubNow, stale } from "../core/link.js";
import { hosts } from "../core/roster.js";
import { pathTo } from "../core/routes.js";
import { Age, html, Icon } from "../ui/html.js";

/** @import { HostView, RateLimitView } from "../wire.js" */

export const REACH = {
  live: { icon: "wifi", words: "live" },
  late: { icon: "clock", words: "late" },
  offline: { icon: "unplug", words: "offline" },
};

/** Machines named before the rest is a count; those in trouble come first. */
const NAMED = 8;
/** So many stand in a row whatever they say. */
const FEW = 4;

/** @param {HostView} host */
function isNotable(host) {
  return (
    conditionOf(host) !== "live" ||
    host.scan ||
    (host.limits ?? []).some(({ used_percent }) => nearlyFull(used_percent))
  );
}

export function Hosts() {
  const all = hosts.value;
  if (all.length === 0) return null;
  const unwell = all.filter((host) => conditionOf(host) !== "live").length;
  const reading = all.filter((host) => host.scan).length;
  // Where something is wrong, that stands alone: those that are well are a count.
  const named = (unwell > 0 && all.length > FEW ? all.filter(isNotable) : all).slice(0, NAMED);
  const rest = all.filter((host) => !named.includes(host));
  const offline = rest.filter((host) => host.reachability === "offline").length;
  return html`
    <section class="hosts" aria-labelledby="hosts-head">
      <h2 id="hosts-head" class="sr">
        Hosts
      </h2>
      <ul>
        ${named.map((host) => html`
          <${Host} key=${host.id} host=${host} />
        `)}
      </ul>
      <a class="hosts-fold" href=${pathTo("hosts")} data-rest=${rest.length}>
        <span class="hosts-all" data-unwell=${unwell > 0}>
          <${Icon} name=${unwell > 0 ? "triangle-alert" : "server"} />
          ${counted(all.length, "host")},${" "}
          ${unwell > 0 ? `${unwell} with a problem` : stale.value ? "as last heard" : "all live"}
          ${reading > 0 && `, ${reading} reading history`}
        </span>
        <span class="hosts-rest">
          ${rest.length} more
          ${offline > 0 ? `, ${offline} of them offline` : rest.some(isNotable) ? "" : ", all well"}
        </span>
        <${Icon} name="chevron-right" />
      </a>
    </section>
  `;
}

/** @param {{host: HostView}} props */
function Host({ host }) {
  const { icon, words } = REACH[host.reachability];
  const state = conditionOf(host);
  const fault = faultShort(host);
  const limits = (host.limits ?? []).filter(({ used_percent }) => nearlyFull(used_percent));
  return html`
    <li class="host" data-host=${host.id} data-reach=${state}>
      <a
        class="host-head"
        href=${`${pathTo("hosts")}#${encodeURIComponent(host.id)}`}
        title=${`Last heartbeat ${exact(host.last_seen)}`}
      >
        <${Icon} name=${state === "trouble" ? "triangle-alert" : icon} />
        <bdi class="host-name">${plain(host.label)}</bdi>
        <span class="host-state">
          ${words}
          ${host.reachability !== "live" && html`
            , last seen <${Age} at=${host.last_seen} /> ago
          `}
        </span>
        ${fault && html`<span class="host-trouble">${fault}</span>`}
        ${host.scan && html`<span class="host-scan">reads its history, ${shareOf(host.scan)} %</span>`}
        ${host.reachability === "live" && html`
          <span class="host-count">
            ${host.sessions ?? 0}
            <span class="sr"> sessions</span>
          </span>
        `}
        <${LimitsShort} limits=${limits} />
      </a>
    </li>
  `;
}

/** In a few words beside its name, nothing if all is well. @param {HostView} host */
function faultShort(host) {
  const trouble = troubleOf(host);
  if (trouble) return plain(trouble);
  const witness = (host.witnesses ?? []).find(isUnwell);
  return witness ? `${capital(witnessName(witness.name))} ${witnessState(witness).words}` : "";
}

/**
 * Redraws once, when its time has come; a percentage from before says nothing any more.
 * @param {number | undefined} at
 */
export function useReset(at) {
  return useMemo(() => computed(() => Boolean(at) && hubNow.value >= Number(at)), [at]).value;
}

/** Beside the machine's name. @param {{limits: RateLimitView[]}} props */
export function LimitsShort({ limits }) {
  return (
    limits.length > 0 && html`
      <span class="limits-short">
        ${limits.map((limit) => html`
          <${LimitShort} key=${(limit.agent ?? "") + limit.name} limit=${limit} />
        `)}
      </span>
    `
  );
}

/** @param {{limit: RateLimitView}} props */
function LimitShort({ limit: { name, used_percent, resets_at, agent = "" } }) {
  if (useReset(resets_at)) return null;
  const near = nearlyFull(used_percent);
  const reset = resets_at ? `, resets at ${exact(resets_at)}` : "";
  const whose = agent && `${plain(agent)} `;
  const words = `${whose}${plain(limitName(name))} ${Math.round(used_percent)} % used${reset}`;
  return html`
    <span class="limit-short" data-near=${near} title=${words}>
      ${near && html`<${Icon} name="triangle-alert" />`}
      <span aria-hidden="true">
        ${whose}${limitShort(name)} ${Math.round(used_percent)} %
      </span>
      <span class="sr"> ${words}</span>
    </span>
  `;
}
