// @ts-check
/** Usage per day as stacked bars, each layer with a pattern of its own; the table beside it has the same sums. */
import { useEffect, useLayoutEffect, useMemo, useRef } from "../vendor/preact-hooks.js";
import { computed } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import uPlot from "../vendor/uplot.js";
import { html } from "../ui/html.js";
import { amount, dayLong, dayShort, dayWords, percentOf, stackOf, summaryOf } from "./state.js";

/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { Layer, Measure, Stack } from "./state.js" */
/** @import { UsageReport } from "../wire.js" */

const TILE = 8;
const LOW = 190;
const HIGH = 250;
/** Above this a bar is a few pixels wide, and edges would be most of it. */
const EDGED = 100;
/** As wide as the style has it. */
const THUMB = 14;
const STEPS = [1, 2, 7, 14, 28, 56, 112];

// Imported by a stylesheet of ours, a sheet makes a checker of pages write inline styles.
await new Promise((resolve, reject) => {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("../vendor/uplot.css", import.meta.url).pathname;
  link.onload = resolve;
  link.onerror = () => {
    link.remove();
    reject(new Error("The chart's style could not be loaded"));
  };
  document.head.append(link);
});

/** What is drawn over a layer's colour, on a tile of 8 by 8. @type {((pen: CanvasRenderingContext2D) => void)[]} */
const PATTERNS = [
  () => {},
  (pen) =>
    lines(pen, [
      [-2, 6, 6, -2],
      [2, 10, 10, 2],
    ]),
  (pen) =>
    [
      [2, 2],
      [6, 6],
    ].forEach(([x, y]) => pen.fillRect(x - 1, y - 1, 2, 2)),
  (pen) =>
    lines(pen, [
      [0, 2, 8, 2],
      [0, 6, 8, 6],
    ]),
  (pen) =>
    lines(pen, [
      [-2, 2, 6, 10],
      [2, -2, 10, 6],
    ]),
  (pen) =>
    lines(pen, [
      [2, 0, 2, 8],
      [6, 0, 6, 8],
    ]),
  (pen) =>
    lines(pen, [
      [0, 8, 8, 0],
      [0, 0, 8, 8],
    ]),
  (pen) =>
    lines(pen, [
      [4, 0, 4, 8],
      [0, 4, 8, 4],
    ]),
];

/** @param {CanvasRenderingContext2D} pen @param {number[][]} all */
function lines(pen, all) {
  pen.beginPath();
  for (const [x1, y1, x2, y2] of all) {
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
  }
  pen.stroke();
}

/**
 * A layer's colour with its pattern.
 * @param {string} colour
 * @param {string} ink
 * @param {number} rank
 * @param {boolean} rest
 * @param {number} scale
 */
function tile(colour, ink, rank, rest, scale) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = TILE * scale;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  pen.fillStyle = colour;
  pen.fillRect(0, 0, TILE, TILE);
  pen.strokeStyle = pen.fillStyle = ink;
  pen.lineWidth = 1.1;
  pen.globalAlpha = 0.55;
  if (!rest) PATTERNS[rank % PATTERNS.length](pen);
  return canvas;
}

/** @param {Element} place */
function colourOf(place) {
  return getComputedStyle(place).color;
}

/** How wide a day's pattern stays the same on any screen. */
function scaleOf() {
  return Math.max(1, Math.round(devicePixelRatio));
}

/** Counts the changes of colours: of the system, or as they were chosen here. */
function useScheme() {
  const changes = useSignal(0);
  useEffect(() => {
    const change = () => void (changes.value += 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const chosen = new MutationObserver(change);
    dark.addEventListener("change", change);
    chosen.observe(document.documentElement, { attributes: true });
    return () => {
      dark.removeEventListener("change", change);
      chosen.disconnect();
    };
  }, []);
  return changes.value;
}

/**
 * @param {{report: UsageReport, measure: Measure, trimmed: boolean}} props trimmed: not before the first
 *   day that has anything on
 */
export function View({ report, measure, trimmed }) {
  const stack = useMemo(() => stackOf(report, measure, trimmed), [report, measure, trimmed]);
  const at = useSignal(/** @type {number | null} */ (null));
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useRef(/** @type {uPlot | null} */ (null));
  const scheme = useScheme();
  const empty = stack.layers.length === 0 || stack.days.length < 2;
  useLayoutEffect(() => {
    const figure = place.current;
    if (!figure || empty) return;
    at.value = null;
    const plot = draw(figure, stack, measure, at);
    drawn.current = plot;
    const resized = new ResizeObserver(() => {
      plot.setSize(sizeIn(figure));
      align(figure, plot, stack.days.length - 1);
    });
    resized.observe(/** @type {Element} */ (figure.querySelector(".plot")));
    return () => {
      resized.disconnect();
      drawn.current = null;
      plot.destroy();
    };
  }, [stack, measure, scheme]);
  if (empty) return null;
  /** @param {number} day */
  const lookAt = (day) => {
    at.value = day;
    const plot = drawn.current;
    plot?.setCursor({ left: plot.valToPos(day, "x"), top: 1 }, false);
  };
  return html`
    <figure class="chart" ref=${place}>
      <div class="plot" role="img" aria-label=${summaryOf(stack, measure, report.split ?? "")}></div>
      <${Days} stack=${stack} measure=${measure} at=${at} onDay=${lookAt} />
      <${Legend} stack=${stack} measure=${measure} at=${at} scheme=${scheme} />
    </figure>
  `;
}

/**
 * Moves over the days without a pointer, and says what each had.
 * @param {{stack: Stack, measure: Measure, at: Signal<number | null>, onDay: (day: number) => void}} props
 */
function Days({ stack, measure, at, onDay }) {
  const last = stack.days.length - 1;
  const day = at.value ?? last;
  return html`
    <label class="chart-days">
      <span>Day</span>
      <input
        class="chart-day"
        type="range"
        min="0"
        max=${last}
        value=${day}
        aria-valuetext=${dayWords(stack, measure, day)}
        onInput=${(/** @type {InputEvent} */ e) => onDay(Number(/** @type {HTMLInputElement} */ (e.target).value))}
        onFocus=${() => onDay(day)}
      />
    </label>
  `;
}

/**
 * What each layer is, and its amount on the day that is looked at, else in all of them.
 * @param {{stack: Stack, measure: Measure, at: Signal<number | null>, scheme: number}} props
 */
function Legend({ stack, measure, at, scheme }) {
  const { days, layers, totals, total, mark } = stack;
  const when = useMemo(
    () =>
      computed(() =>
        at.value === null ? `${dayShort(days[0])} to ${dayShort(days[days.length - 1])}` : dayLong(days[at.value]),
      ),
    [stack],
  );
  const whole = useMemo(
    () => computed(() => amount(at.value === null ? total : totals[at.value], measure, mark)),
    [stack, measure],
  );
  return html`
    <figcaption class="legend">
      <p class="legend-when">
        <span>${when}</span>
        <b>${whole}</b>
      </p>
      <ul>
        ${layers.map((layer, rank) => html`
          <${Key}
            key=${layer.name + rank}
            layer=${layer}
            rank=${rank}
            stack=${stack}
            measure=${measure}
            at=${at}
            scheme=${scheme}
          />
        `)}
      </ul>
    </figcaption>
  `;
}

/**
 * @param {{layer: Layer, rank: number, stack: Stack, measure: Measure, at: Signal<number | null>,
 *   scheme: number}} props
 */
function Key({ layer, rank, stack, measure, at, scheme }) {
  const swatch = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  useLayoutEffect(() => {
    const canvas = /** @type {HTMLCanvasElement} */ (swatch.current);
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const scale = scaleOf();
    canvas.width = canvas.height = 14 * scale;
    pen.fillStyle = /** @type {CanvasPattern} */ (
      pen.createPattern(tile(colourOf(canvas), inkOf(canvas), rank, layer.rest, scale), "repeat")
    );
    pen.fillRect(0, 0, canvas.width, canvas.height);
  }, [rank, layer.rest, scheme]);
  const value = useMemo(
    () => computed(() => amount(at.value === null ? layer.total : layer.values[at.value], measure, stack.mark)),
    [layer, measure],
  );
  const share = useMemo(
    () =>
      computed(() =>
        at.value === null
          ? percentOf(layer.total, stack.total)
          : percentOf(layer.values[at.value], stack.totals[at.value]),
      ),
    [layer, stack],
  );
  return html`
    <li>
      <canvas class="swatch" ref=${swatch} data-rank=${layer.rest ? "rest" : rank} aria-hidden="true"></canvas>
      <bdi title=${layer.name}>${layer.name.replace(/-20\d{6}$/, "")}</bdi>
      <span class="legend-share">${share}</span>
      <b>${value}</b>
    </li>
  `;
}

/** What separates and patterns the layers: the colour of the page below them. @param {Element} place */
function inkOf(place) {
  return getComputedStyle(/** @type {Element} */ (place.closest(".chart"))).backgroundColor;
}

/** Lays the way over the days below their bars. @param {HTMLElement} figure @param {uPlot} plot @param {number} last */
function align(figure, plot, last) {
  const { style } = /** @type {HTMLElement} */ (figure.querySelector(".chart-day"));
  const first = plot.valToPos(0, "x");
  style.marginInlineStart = `${Math.round(plot.bbox.left / devicePixelRatio + first - THUMB / 2)}px`;
  style.width = `${Math.round(plot.valToPos(last, "x") - first + THUMB)}px`;
}

/** @param {HTMLElement} figure */
function sizeIn(figure) {
  const width = Math.floor(/** @type {Element} */ (figure.querySelector(".plot")).clientWidth);
  return { width, height: width < 520 ? LOW : HIGH };
}

/** @param {HTMLElement} figure @param {Stack} stack @param {Measure} measure @param {Signal<number | null>} at */
function draw(figure, { days, layers }, measure, at) {
  const place = /** @type {HTMLElement} */ (figure.querySelector(".plot"));
  const scale = scaleOf();
  const ink = inkOf(figure);
  const { color: words, borderTopColor: grid, fontFamily } = getComputedStyle(place);
  const font = `12px ${fontFamily}`;
  const bars = uPlot.paths.bars?.({ size: [0.78, 64] });
  const fills = layers.map((layer, rank) =>
    tile(
      colourOf(/** @type {Element} */ (figure.querySelector(`.swatch[data-rank="${layer.rest ? "rest" : rank}"]`))),
      ink,
      rank,
      layer.rest,
      scale,
    ),
  );
  // Each layer is drawn down to the ground, the topmost first, so that those below cover it.
  const below = days.map(() => 0);
  const sums = layers.map(({ values }) => values.map((value, n) => (below[n] += value)));
  const series = layers.map((_, rank) => ({
    fill: (/** @type {uPlot} */ plot) =>
      /** @type {CanvasPattern} */ (plot.ctx.createPattern(fills[rank], "repeat")),
    stroke: ink,
    width: days.length > EDGED ? 0 : 1 / scale,
    paths: bars,
    points: { show: false },
  }));
  return new uPlot(
    {
      ...sizeIn(figure),
      padding: [10, 4, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, range: () => [-0.5, days.length - 0.5] },
        y: { range: (_, __, most) => [0, most > 0 ? most * 1.04 : 1] },
      },
      axes: [
        {
          stroke: words,
          font,
          size: 28,
          gap: 6,
          space: 62,
          incrs: STEPS,
          grid: { show: false },
          ticks: { show: false },
          values: (_, splits) => splits.map((day) => (days[day] ? dayShort(days[day]) : "")),
        },
        {
          stroke: words,
          font,
          size: 58,
          gap: 8,
          space: 40,
          grid: { stroke: grid, width: 1 },
          ticks: { show: false },
          values: (_, splits) => splits.map((value) => tick(value, measure)),
        },
      ],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
      hooks: { setCursor: [(plot) => void (at.value = plot.cursor.idx ?? null)] },
      series: [{}, ...series.reverse()],
    },
    [days.map((_, n) => n), ...sums.reverse()],
    place,
  );
}

/** @param {number} value @param {Measure} measure */
function tick(value, measure) {
  if (value === 0) return "0";
  return measure === "cost" && value < 1000
    ? `$${value < 1 ? value.toFixed(2) : Number(value.toFixed(2))}`
    : measure === "cost"
      ? `$${amount(value, "tokens")}`
      : amount(value, measure);
}
