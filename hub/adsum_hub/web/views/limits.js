// @ts-check
/** A machine's rate limits, and how far it has read its history. */
import { useMemo } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals.js";
import { plain } from "../asks.js";
import { duration, exact, hubNow } from "../clock.js";
import { bytes, limitName, nearlyFull } from "../figures.js";
import { shareOf } from "../reading.js";
import { Bar, Icon, Until, html } from "./html.js";

/** @import { RateLimitView, ScanProgress } from "../wire.js" */

/** Redraws once, when its time has come; a percentage from before says nothing any more. @param {number | undefined} at */
function useReset(at) {
  return useMemo(() => computed(() => Boolean(at) && hubNow.value >= Number(at)), [at]).value;
}

/** Beside the machine's name. @param {{limits: RateLimitView[]}} props */
export function LimitsShort({ limits }) {
  return limits.length > 0 && html`<span class="limits-short">${limits.map((limit) => html`<${LimitShort} key=${limit.name} limit=${limit} />`)}</span>`;
}

/** @param {{limit: RateLimitView}} props */
function LimitShort({ limit: { name, used_percent, resets_at } }) {
  if (useReset(resets_at)) return null;
  const near = nearlyFull(used_percent);
  const words = `${plain(limitName(name))} ${Math.round(used_percent)} % used${resets_at ? `, resets at ${exact(resets_at)}` : ""}`;
  return html`<span class="limit-short" data-near=${near} title=${words}>${near && html`<${Icon} name="triangle-alert" />`}<span aria-hidden="true">${shortName(name)} ${Math.round(used_percent)} %</span><span class="sr"> ${words}</span></span>`;
}

/** @param {string} name such as 5h, 7d */
function shortName(name) {
  return plain(limitName(name)).replace(/-hour limit$/, "h").replace(/-day limit$/, "d").replace(/-day (\w+) limit$/, "d $1").replace(/ limit$/, "");
}

/** At length, where the machine is opened. @param {{limits: RateLimitView[]}} props */
export function Limits({ limits }) {
  return limits.length > 0 && html`<ul class="limits" aria-label="Rate limits">${limits.map((limit) => html`<${Limit} key=${limit.name} limit=${limit} />`)}</ul>`;
}

/** @param {{limit: RateLimitView}} props */
function Limit({ limit: { name, used_percent, resets_at } }) {
  const over = useReset(resets_at);
  const near = !over && nearlyFull(used_percent);
  return html`<li data-near=${near}>
    <span class="witness-name">${plain(limitName(name))}</span><${Bar} percent=${over ? 0 : used_percent} />
    <span class="witness-state">${over
      ? "has been reset; not told anew yet"
      : html`${near && html`<${Icon} name="triangle-alert" />`}${Math.round(used_percent)} %${resets_at ? html`, resets in <${Until} at=${resets_at} />` : ""}`}</span>
  </li>`;
}

/** @param {{scan: ScanProgress, name: string}} props */
export function Scan({ scan, name }) {
  const { files, files_done, bytes: all, bytes_done, bytes_per_s = 0, left_s = null } = scan;
  const percent = shareOf(scan);
  const words = [
    `${files_done.toLocaleString()} of ${files.toLocaleString()} files`,
    `${bytes(bytes_done)} of ${bytes(all)}`,
    bytes_per_s > 0 && `${bytes(bytes_per_s)}/s`,
    left_s != null && left_s >= 1 && `${duration(left_s * 1000)} left`,
  ].filter(Boolean).join(", ");
  return html`<div class="scan">
    <p>Reading its history, ${percent} %: ${words}</p>
    <div role="progressbar" aria-label=${`${name} reads its history`} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${percent} aria-valuetext=${`${percent} %, ${words}`}><${Bar} percent=${percent} /></div>
  </div>`;
}
