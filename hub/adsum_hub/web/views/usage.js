// @ts-check
/** What was used up, as a report by day, machine, project, model or session. */
import { useEffect } from "../vendor/preact-hooks.js";
import { closePanel, openSession, panel } from "../address.js";
import { plain } from "../asks.js";
import { costOf, exactUsage, reportSource, short, tokensOf } from "../figures.js";
import { readers, shareOf } from "../reading.js";
import { BY, DAYS, FURTHEST, askAgain, by, csvAddress, days, older, usage, watchUsage } from "../usage.js";
import { Ghosts, Icon, Sentence, counted, html } from "./html.js";
import { Sheet } from "./sheet.js";

/** @import { Signal } from "../vendor/signals.js" */
/** @import { UsageReport, UsageRow, UsageView } from "../wire.js" */

/** More rows than anyone reads; the file holds all of them. */
const MOST = 500;

const BY_WORDS = { day: "Day", host: "Machine", project: "Project", model: "Model", session: "Session" };
const DAY_WORDS = { 1: "Today", 7: "7 days", 30: "30 days", 90: "90 days", [FURTHEST]: "All" };

export function UsagePanel() {
  useEffect(watchUsage, []);
  const { phase, report, why } = usage.value;
  return html`<${Sheet} name="usage" title="Usage" wide onClose=${() => panel.value === "usage" && closePanel()}>
    <div class="choices">
      <${Choice} name="days" legend="Period" chosen=${days} options=${DAYS.map((each) => [each, DAY_WORDS[each]])} />
      <${Choice} name="by" legend="By" chosen=${by} options=${BY.map((each) => [each, BY_WORDS[each]])} />
    </div>
    ${phase === "failed" && html`<p class="log-failed" role="alert"><${Icon} name="triangle-alert" /><span>${why} ${report ? "Below is what it said before." : ""}</span>
      <button class="button" onClick=${askAgain}><${Icon} name="refresh-cw" />Try again</button></p>`}
    ${report ? html`<${Report} report=${report} busy=${phase === "loading"} />` : phase === "loading" && html`<${Ghosts} words="Fetching the report" />`}
  <//>`;
}

/** One of a few: arrow keys change it. @param {{name: string, legend: string, chosen: Signal<any>, options: [string | number, string][]}} props */
function Choice({ name, legend, chosen, options }) {
  return html`<fieldset class="choice"><legend class="sr">${legend}</legend>${options.map(
    ([value, words]) => html`<label key=${value}><input type="radio" name=${name} checked=${chosen.value === value} onChange=${() => (chosen.value = value)} /><span>${words}</span></label>`,
  )}</fieldset>`;
}

/** @param {{report: UsageReport, busy: boolean}} props */
function Report({ report, busy }) {
  const { rows, total, notes = [] } = report;
  const period = report.since === report.until ? report.since : `${report.since} to ${report.until}`;
  if (rows.length === 0) {
    return html`<p class="nobody" aria-busy=${busy}>Nothing was used up: ${period}.</p>
      <${Older} /><${Readers} notes=${notes} /><${ReportNotes} notes=${notes} />`;
  }
  const source = reportSource(report);
  return html`<p class="report-head">${period}<a class="link" href=${csvAddress()} download>CSV<span class="sr"> of this report</span></a></p>
    <table class="report" aria-busy=${busy} data-busy=${busy}>
      <caption class="sr">Usage, ${period}</caption>
      <thead><tr><th scope="col">${BY_WORDS[report.by]}</th>${report.by !== "session" && html`<th scope="col" class="more-room">Sessions</th>`}<th scope="col" class="more-room">Input</th><th scope="col" class="more-room">Output</th><th scope="col" class="more-room">Cache read</th><th scope="col" class="more-room">Cache written</th><th scope="col">Tokens</th><th scope="col">Cost</th></tr></thead>
      <tbody>
        <tr class="report-total"><th scope="row">Total</th>${report.by !== "session" && html`<td class="more-room"></td>`}<${Numbers} usage=${total} /></tr>
        ${rows.slice(0, MOST).map((row) => html`<tr key=${row.key}><th scope="row"><${RowName} row=${row} by=${report.by} /></th>${report.by !== "session" && html`<td class="more-room">${row.sessions?.toLocaleString()}</td>`}<${Numbers} usage=${row.usage} /></tr>`)}
      </tbody>
    </table>
    ${rows.length > MOST && html`<p class="quiet">${counted(rows.length - MOST, "more row")}: the CSV file has them all.</p>`}
    ${source && html`<p class="quiet report-note report-source">${source}</p>`}
    <${Readers} notes=${notes} /><${ReportNotes} notes=${notes} />`;
}

/** @param {{notes: string[]}} props */
function ReportNotes({ notes }) {
  return html`${notes.map((note) => html`<p class="quiet report-note" key=${note}><${Sentence} text=${plain(note)} /></p>`)}`;
}

/** The way to what was used before the days that have nothing. */
function Older() {
  if (!older.value) return null;
  return html`<p class="report-note report-older"><span>There is older usage.</span><button class="button" onClick=${() => (days.value = FURTHEST)}>Show all</button></p>`;
}

/** Machines whose history is not yet in the report, unless its notes say so. @param {{notes: string[]}} props */
function Readers({ notes }) {
  return html`${readers.value
    .filter(({ label }) => !notes.some((note) => note.includes(label) && note.includes("reads its history")))
    .map(({ id, label, scan }) => html`<p class="quiet report-note" key=${id}><bdi>${plain(label)}</bdi> still reads its history: ${scan && shareOf(scan)} % so far. What it finds comes in here by itself.</p>`)}`;
}

/** @param {{row: UsageRow, by: UsageReport["by"]}} props */
function RowName({ row: { key, label }, by }) {
  const name = plain(label || key || `no ${BY_WORDS[by].toLowerCase()}`);
  if (by !== "session") return html`<bdi>${name}</bdi>`;
  return html`<button class="row-open" aria-haspopup="dialog" onClick=${() => openSession(key)}><bdi>${name}</bdi></button>`;
}

/** @param {{usage: UsageView}} props */
function Numbers({ usage }) {
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = usage;
  return html`${[input_tokens, output_tokens, cache_read_tokens, cache_write_tokens].map(
      (count, i) => html`<td key=${i} class="more-room" title=${count.toLocaleString()}>${short(count)}</td>`,
    )}<td title=${tokensOf(usage).toLocaleString()}>${short(tokensOf(usage))}</td><td class="cost" title=${exactUsage(usage)}>${costOf(usage) || "–"}</td>`;
}
