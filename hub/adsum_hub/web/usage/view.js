// @ts-check
/** What was used: sums, a chart per day, budgets, and a report by day, host, project, model or session. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import {
  capital,
  costOf,
  costSource,
  counted,
  dollars,
  exactUsage,
  moment,
  plain,
  short,
  tokensOf,
} from "../core/format.js";
import { shareOf } from "../core/hosts.js";
import { readers } from "../core/roster.js";
import { pathTo, sessionPath } from "../core/routes.js";
import { SinceWhen } from "../frame/empty.js";
import { Choice } from "../ui/controls.js";
import { Bar, Ghosts, html, Icon, lazy, Sentence } from "../ui/html.js";
import {
  askAgain,
  budgets,
  BY,
  choose,
  compared,
  csvAddress,
  dayLong,
  DAYS,
  FURTHEST,
  MEASURES,
  older,
  percentOf,
  reportSource,
  sizeOf,
  SPLITS,
  strange,
  usage,
  wanted,
  watchUsage,
  wrongDays,
} from "./state.js";

/** @import { BudgetUse, BudgetView, UsageReport, UsageRow, UsageView } from "../wire.js" */

const ChartOfDays = lazy(() => import("./chart.js"), "usage/chart");
/** Rows at first, and more than anyone reads; the file holds all of them. */
const FIRST = 50;
const MOST = 500;
const BY_WORDS = { day: "Day", host: "Host", project: "Project", model: "Model", agent: "Agent", session: "Session" };
const DAY_WORDS = { 1: "Today", 7: "7 days", 30: "30 days", 90: "90 days", [FURTHEST]: "All", 0: "Dates" };
const MEASURE_WORDS = { cost: "Cost", tokens: "Tokens" };

export function View() {
  useEffect(watchUsage, []);
  const { phase, report, why } = usage.value;
  const wrong = wrongDays.value;
  return html`
    <section class="view" data-name="usage" aria-labelledby="view-title">
      <h2 id="view-title">Usage</h2>
      <${Period} report=${report} />
      ${strange.value.length > 0 && html`
        <p class="quiet report-note" role="status">
          The address asks for${" "}
          ${strange.value.map((each) => html`
            <code key=${each}>${plain(each)}</code>${" "}
          `)}
          which does not exist. Below is the default.
        </p>
      `}
      ${wrong && html`
        <p class="wrong-days" role="alert">
          <${Icon} name="circle-alert" />
          ${wrong}
        </p>
      `}
      ${phase === "failed" && html`
        <p class="log-failed" role="alert">
          <${Icon} name="triangle-alert" />
          <span>
            <${Sentence} text=${why ?? ""} /> ${report ? "Below is the previous report." : ""}
          </span>
          <button class="button" onClick=${askAgain}>
            <${Icon} name="refresh-cw" />
            Try again
          </button>
        </p>
        <${SinceWhen} />
      `}
      ${report ? html`
        <${Report} report=${report} busy=${phase === "loading"} />
      ` : (
        phase === "loading" && !wrong && html`<${Ghosts} words="Loading the report" />`
      )}
    </section>
  `;
}

/** @param {{report: UsageReport | undefined}} props */
function Period({ report }) {
  const { days, since, until } = wanted.value;
  const own = () => choose({ days: 0, since: since || report?.since || "", until: until || report?.until || "" });
  return html`
    <div class="choices">
      <${Choice}
        name="days"
        legend="Period"
        chosen=${days}
        options=${[...DAYS, 0].map((each) => [each, DAY_WORDS[/** @type {keyof typeof DAY_WORDS} */ (each)]])}
        onChoose=${(/** @type {number} */ value) => (value ? choose({ days: value }) : own())}
      />
      ${days === 0 && html`
        <div class="own-days">
          <${DayField} name="since" words="From" value=${since} />
          <${DayField} name="until" words="to" value=${until} />
        </div>
      `}
    </div>
  `;
}

/** @param {{name: "since" | "until", words: string, value: string}} props */
function DayField({ name, words, value }) {
  return html`
    <label>
      ${words}${" "}
      <input
        type="date"
        name=${name}
        value=${value}
        min="2020-01-01"
        onChange=${(/** @type {Event} */ e) => choose({ [name]: /** @type {HTMLInputElement} */ (e.target).value })}
      />
    </label>
  `;
}

/** @param {{report: UsageReport, busy: boolean}} props */
function Report({ report, busy }) {
  const { rows, notes = [], since, until } = report;
  const several = since !== until;
  if (rows.length === 0) {
    const none = readers.value.length > 0
      ? "Still counting: nothing is added up yet."
      : wanted.value.days === 1
        ? "No usage yet today."
        : `No usage: ${periodOf(report)}.`;
    return html`
      <p class="nobody" aria-busy=${busy}>
        ${none}
      </p>
      <${Older} />
      <${Readers} notes=${notes} />
      <${ReportNotes} notes=${notes} />
      <${BudgetList} />
    `;
  }
  return html`
    <div class="report-body" aria-busy=${busy} data-busy=${busy}>
      <${Headline} report=${report} />
      ${several && html`<${Chart} report=${report} />`}
      <${Table} report=${report} key=${report.by} />
    </div>
    <${Source} report=${report} />
    <${Readers} notes=${notes} />
    <${ReportNotes} notes=${notes} />
    <${BudgetList} />
  `;
}

/** @param {UsageReport} report */
function periodOf({ since, until }) {
  return since === until ? since : `${since} to ${until}`;
}

/** The sums, and how they compare with those before. @param {{report: UsageReport}} props */
function Headline({ report }) {
  const { total, before, since, until, sessions = 0 } = report;
  const days = Math.round((Date.parse(until) - Date.parse(since)) / 86_400_000) + 1;
  const when = days === 1 ? "the day before" : `the ${days} days before`;
  const cost =
    before && before.cost_usd != null && !before.unpriced_tokens && !total.unpriced_tokens
      ? compared(total.cost_usd, before.cost_usd, when)
      : undefined;
  const tokens = before && compared(tokensOf(total), tokensOf(before), when);
  return html`
    <dl class="totals">
      <div class="total" data-name="cost">
        <dt>Cost</dt>
        <dd title=${exactUsage(total)}>${costOf(total) || "–"}</dd>
        <dd class="total-note">${costSource(total)}</dd>
        ${cost && html`<${Trend} trend=${cost} was=${before && costOf(before)} />`}
      </div>
      <div class="total" data-name="tokens">
        <dt>Tokens</dt>
        <dd title=${tokensOf(total).toLocaleString()}>${short(tokensOf(total))}</dd>
        <dd class="total-note">${kindsOf(total)}</dd>
        ${tokens && html`<${Trend} trend=${tokens} was=${before && short(tokensOf(before))} />`}
      </div>
      <div class="total" data-name="sessions">
        <dt>Sessions</dt>
        <dd>${sessions.toLocaleString()}</dd>
        ${total.web_searches ? html`
          <dd class="total-note">${counted(total.web_searches, "web search", "web searches")}</dd>
        ` : (
          ""
        )}
      </div>
    </dl>
  `;
}

/** @param {UsageView} usage */
function kindsOf({ input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 }) {
  const plainly = `${short(input_tokens)} input, ${short(output_tokens)} output`;
  return `${plainly}, ${short(cache_read_tokens)} cache read, ${short(cache_write_tokens)} cache written`;
}

/** @param {{trend: {trend: "up" | "down" | "same", words: string}, was: string | undefined}} props */
function Trend({ trend: { trend, words }, was }) {
  return html`
    <dd class="trend">
      ${trend !== "same" && html`<${Icon} name=${trend === "up" ? "arrow-up" : "arrow-down"} />`}
      <span>
        ${words}
        ${was && !words.startsWith("nothing") ? ` (${was.replace(" ", "\u00a0")})` : ""}
      </span>
    </dd>
  `;
}

/** @param {{report: UsageReport}} props */
function Chart({ report }) {
  const { split, measure, days } = wanted.value;
  const drawable = (report.series ?? []).some(({ points }) =>
    points.some((point) => (measure === "cost" ? point.cost_usd : point.tokens)),
  );
  return html`
    <section class="report-part" aria-labelledby="chart-title">
      <div class="part-bar">
        <h3 id="chart-title">${MEASURE_WORDS[measure]} per day</h3>
        <${Choice}
          name="measure"
          legend="Measure"
          chosen=${measure}
          options=${MEASURES.map((each) => [each, MEASURE_WORDS[each]])}
          onChoose=${(/** @type {any} */ value) => choose({ measure: value })}
        />
        <${Choice}
          name="split"
          legend="Coloured by"
          chosen=${split}
          options=${SPLITS.map((each) => [each, BY_WORDS[each]])}
          onChoose=${(/** @type {any} */ value) => choose({ split: value })}
        />
      </div>
      <div class="chart-room" data-empty=${!drawable}>
        ${drawable ? html`
          <${ChartOfDays} quiet report=${report} measure=${measure} trimmed=${days === FURTHEST} />
        ` : html`
          <p class="nobody">${measure === "cost" ? "No price is known." : "No data."}</p>
        `}
      </div>
    </section>
  `;
}

/** @typedef {"name" | "sessions" | "input" | "output" | "read" | "written" | "tokens" | "cost"} Column */

/** @type {[Column, string, boolean][]} its words, and whether a phone has no room for it */
const COLUMNS = [
  ["sessions", "Sessions", true],
  ["input", "Input", true],
  ["output", "Output", true],
  ["read", "Cache read", true],
  ["written", "Cache written", true],
  ["tokens", "Tokens", false],
  ["cost", "Cost", false],
];

/** @type {Record<Column, (row: UsageRow) => number | string>} */
const VALUES = {
  name: ({ label, key }) => (label || key).toLowerCase(),
  sessions: ({ sessions = 0 }) => sessions,
  input: ({ usage }) => usage.input_tokens ?? 0,
  output: ({ usage }) => usage.output_tokens ?? 0,
  read: ({ usage }) => usage.cache_read_tokens ?? 0,
  written: ({ usage }) => usage.cache_write_tokens ?? 0,
  tokens: ({ usage }) => tokensOf(usage),
  cost: ({ usage }) => usage.cost_usd ?? -1,
};

/** @param {UsageRow[]} rows @param {Column} column @param {boolean} down */
function sorted(rows, column, down) {
  const value = VALUES[column];
  const order = (/** @type {UsageRow} */ a, /** @type {UsageRow} */ b) => {
    const [x, y] = [value(a), value(b)];
    return typeof x === "string" ? x.localeCompare(String(y), undefined, { numeric: true }) : x - Number(y);
  };
  return [...rows].sort((a, b) => (down ? order(b, a) : order(a, b)));
}

/** @param {{report: UsageReport}} props */
function Table({ report }) {
  const { rows, total, by } = report;
  const { measure } = wanted.value;
  // Nothing: as it comes, the days in their order and of all else the largest first.
  const sort = useSignal(/** @type {{column: Column, down: boolean} | null} */ (null));
  const { column, down } =
    sort.value ??
    (by === "day" ? { column: /** @type {const} */ ("name"), down: true } : { column: measure, down: true });
  const room = useSignal(FIRST);
  const shown = sorted(rows, column, down).slice(0, room.value);
  const whole = sizeOf(total, measure);
  /** @param {Column} chosen */
  const change = (chosen) =>
    (sort.value = { column: chosen, down: column === chosen ? !down : chosen !== "name" || by === "day" });
  const head = (/** @type {Column} */ name, /** @type {string} */ words, /** @type {boolean} */ hides) => html`
    <th
      key=${name}
      scope="col"
      class=${hides ? "more-room" : undefined}
      aria-sort=${column === name ? (down ? "descending" : "ascending") : undefined}
    >
      <button class="sort" onClick=${() => change(name)}>
        ${words}
        ${column === name && html`<${Icon} name=${down ? "arrow-down" : "arrow-up"} />`}
      </button>
    </th>
  `;
  const columns = COLUMNS.filter(([name]) => name !== "sessions" || by !== "session");
  return html`
    <section class="report-part" aria-labelledby="table-title">
      <div class="part-bar">
        <h3 id="table-title">By ${BY_WORDS[by].toLowerCase()}</h3>
        <${Choice}
          name="by"
          legend="By"
          chosen=${wanted.value.by}
          options=${BY.map((each) => [each, BY_WORDS[each]])}
          onChoose=${(/** @type {any} */ value) => choose({ by: value })}
        />
        <span class="report-head">
          <span class="report-period">${periodOf(report)}</span>
          <a class="link" href=${csvAddress()} download>
            <${Icon} name="download" />
            CSV<span class="sr"> of this report</span>
          </a>
        </span>
      </div>
      <div class="report-scroll">
        <table class="report">
          <caption class="sr">
            Usage by ${by}, ${periodOf(report)}
          </caption>
          <thead>
            <tr>
              ${head("name", BY_WORDS[by], false)}
              <th scope="col" class="more-room share">
                Share
              </th>
              ${columns.map((each) => head(...each))}
            </tr>
          </thead>
          <tbody>
            <tr class="report-total">
              <th scope="row">Total</th>
              <td class="more-room share"></td>
              ${by !== "session" && html`
                <td class="more-room">${report.sessions ? report.sessions.toLocaleString() : ""}</td>
              `}
              <${Numbers} usage=${total} />
            </tr>
            ${shown.map((row) => html`
              <tr key=${row.key}>
                <th scope="row">
                  <${RowName} row=${row} by=${by} />
                  <span class="row-bar">
                    <${Bar} percent=${whole > 0 ? (100 * sizeOf(row.usage, measure)) / whole : 0} />
                  </span>
                </th>
                <td class="more-room share">${percentOf(sizeOf(row.usage, measure), whole)}</td>
                ${by !== "session" && html`<td class="more-room">${row.sessions?.toLocaleString()}</td>`}
                <${Numbers} usage=${row.usage} />
              </tr>
            `)}
          </tbody>
        </table>
      </div>
      ${rows.length > room.value && room.value < MOST && html`
        <button class="more" onClick=${() => (room.value = MOST)}>
          Show ${rows.length > MOST ? `the first ${MOST}` : `all ${rows.length}`}
        </button>
      `}
      ${rows.length > MOST && html`
        <p class="quiet">${counted(rows.length - MOST, "more row")}: the CSV file has them all.</p>
      `}
    </section>
  `;
}

/** @param {{report: UsageReport}} props */
function Source({ report }) {
  const source = reportSource(report);
  return source && html`<p class="quiet report-note report-source">${source}</p>`;
}

/** @param {{notes: string[]}} props */
function ReportNotes({ notes }) {
  return html`
    ${notes.map((note) => html`
      <p class="quiet report-note" key=${note}>
        <${Sentence} text=${plain(note)} />
      </p>
    `)}
  `;
}

/** The way to what was used before the days that have nothing. */
function Older() {
  if (!older.value) return null;
  return html`
    <p class="report-note report-older">
      <span>There is older usage.</span>
      <button class="button" onClick=${() => choose({ days: FURTHEST })}>
        Show all
      </button>
    </p>
  `;
}

/** Machines whose history is not yet in the report, unless its notes say so. @param {{notes: string[]}} props */
function Readers({ notes }) {
  return html`
    ${readers.value
      .filter(({ label }) => !notes.some((note) => note.includes(label) && note.includes("reads its history")))
      .map(({ id, label, scan }) => html`
        <p class="quiet report-note" key=${id}>
          <bdi>${plain(label)}</bdi> still reads its history: ${scan && shareOf(scan)} % so far. What it finds
          is added here.
        </p>
      `)}
  `;
}

/**
 * Where the sessions of a row are found; nothing where they have no such name.
 * @param {UsageRow} row
 * @param {UsageReport["by"]} by
 */
function wayTo({ key, label }, by) {
  if (by === "session") return sessionPath(key);
  if (by === "day") return `${pathTo("usage")}?since=${key}&until=${key}&by=session`;
  const value = by === "host" ? label : key;
  return value && `${pathTo("list")}?${by}=${encodeURIComponent(value)}`;
}

/** @param {{row: UsageRow, by: UsageReport["by"]}} props */
function RowName({ row, by }) {
  const name = by === "day" ? row.key : plain(row.label || row.key || `no ${BY_WORDS[by].toLowerCase()}`);
  const way = wayTo(row, by);
  return way ? html`
    <a class="row-open" href=${way} title=${by === "day" ? dayLong(row.key) : undefined}>
      <bdi>${name}</bdi>
    </a>
  ` : html`
    <bdi>${name}</bdi>
  `;
}

/** @param {{usage: UsageView}} props */
function Numbers({ usage }) {
  const { input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0 } = usage;
  return html`
    ${[input_tokens, output_tokens, cache_read_tokens, cache_write_tokens].map((count, i) => html`
      <td key=${i} class="more-room" title=${count.toLocaleString()}>
        ${short(count)}
      </td>
    `)}
    <td title=${tokensOf(usage).toLocaleString()}>${short(tokensOf(usage))}</td>
    <td class="cost" title=${exactUsage(usage)}>
      ${costOf(usage) || "–"}
    </td>
  `;
}

/** How much of each budget is used. */
function BudgetList() {
  const all = budgets.value;
  if (all === undefined) return null;
  return html`
    <section class="report-part budgets" aria-labelledby="budgets-title">
      <div class="part-bar">
        <h3 id="budgets-title">Budgets</h3>
      </div>
      ${all === null && html`<p class="quiet">The budgets could not be loaded.</p>`}
      ${all?.length === 0 && html`
        <p class="quiet">
          None is set. A <code>[[budgets]]</code> entry in the hub's <code>config.toml</code> limits the dollars of
          a session, a project, a host or the team, and notifies you when it is exceeded.
        </p>
      `}
      ${all && all.length > 0 && html`
        <ul class="budget-list">
          ${all.map((budget, n) => html`
            <${OneBudget} key=${n} budget=${budget} />
          `)}
        </ul>
      `}
    </section>
  `;
}

const SCOPES = { session: "Each session", project: "Each project", host: "Each host", team: "The team" };

/** A session without a title goes by the start of its id. @param {string} name */
function shortened(name) {
  return plain(name.replace(/^([0-9a-f]{8})-[0-9a-f-]{27}$/, "$1"));
}

/** @param {{budget: BudgetView}} props */
function OneBudget({ budget }) {
  const { scope, usd, name, when, uses, more } = budget;
  const single = name && !/[*?[]/.test(name) && uses.length + more < 2;
  const who =
    name && scope !== "team" ? html`
      ${capital(scope)}${single ? "" : "s"} <bdi>${shortened((single && uses[0]?.label) || name)}</bdi>
    ` : (
      SCOPES[scope]
    );
  const over = uses.filter(({ spent_usd }) => spent_usd >= usd).length;
  return html`
    <li class="budget">
      <p class="budget-head">
        <b>${who}</b>
        <span>
          ${dollars(usd)} ${when || (single ? "" : "each")}
        </span>
        ${over > 0 && html`
          <a class="budget-over" href=${`${pathTo("list")}?state=budget_exceeded`}>
            <${Icon} name="triangle-alert" />
            ${over} over
          </a>
        `}
      </p>
      ${uses.length === 0 && html`<p class="quiet">Nothing used yet.</p>`}
      ${uses.length > 0 && html`
        <ul>
          ${uses.map((use) => html`
            <${OneUse} key=${use.key} use=${use} budget=${budget} />
          `)}
        </ul>
      `}
      ${more > 0 && html`<p class="quiet">and ${counted(more, "other")} with less.</p>`}
    </li>
  `;
}

/** @param {{use: BudgetUse, budget: BudgetView}} props */
function OneUse({ use: { key, label, spent_usd, since }, budget: { scope, per, usd } }) {
  const percent = (100 * spent_usd) / usd;
  const over = spent_usd >= usd;
  const near = !over && percent >= 80;
  const single = scope === "session" || per === "session";
  const list = scope === "team" ? "" : `${pathTo("list")}?${scope}=${encodeURIComponent(label)}`;
  const way = single ? sessionPath(key) : list;
  return html`
    <li data-near=${near} data-over=${over}>
      ${way ? html`
        <a class="row-open" href=${way}>
          <bdi>${shortened(label)}</bdi>
        </a>
      ` : html`
        <span>${scope === "team" ? "Everybody" : html`<bdi>${plain(label)}</bdi>`}</span>
      `}
      <${Bar} percent=${percent} />
      <span class="budget-words">
        ${over && html`<${Icon} name="triangle-alert" />`}
        ${dollars(spent_usd)} of ${dollars(usd)}, ${percentOf(spent_usd, usd)}
        ${over ? (since ? `, over since ${moment(since)}` : ", over") : ""}
      </span>
    </li>
  `;
}
