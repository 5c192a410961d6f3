// @ts-check
/** Views that the first look does not need: their modules and styles are fetched when they are wanted. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { Ghosts, Icon, html } from "./html.js";

/** @import { ComponentType } from "../vendor/preact.js" */

/** Spelled out, so that each path is checked. @type {Record<string, () => Promise<Record<string, any>>>} */
const MODULES = {
  empty: () => import("./empty.js"),
  list: () => import("./list.js"),
  grouped: () => import("./grouped.js"),
  session: () => import("./session.js"),
  machines: () => import("./machines.js"),
  add_machine: () => import("./add_machine.js"),
  usage: () => import("./usage.js"),
  chart: () => import("./chart.js"),
  history: () => import("./history.js"),
  settings: () => import("./settings.js"),
  settings_notify: () => import("./settings_notify.js"),
  install: () => import("./install.js"),
  palette: () => import("./palette.js"),
  facets: () => import("./facets.js"),
  shortcuts: () => import("./shortcuts.js"),
  menu: () => import("./menu.js"),
};

/** Those that lie over the page, and need the sheet's styles beside their own. */
const ON_SHEETS = ["session", "add_machine", "menu", "facets", "shortcuts"];

/** What has come, by its name: drawn at once the next time. @type {Map<string, Record<string, any>>} */
const loaded = new Map();

/** @param {string} name of a module and its stylesheet @returns {Promise<Record<string, any>>} */
async function load(name) {
  const [module] = await Promise.all([MODULES[name](), styled("panel"), styled(name), ON_SHEETS.includes(name) && styled("sheet")]);
  loaded.set(name, module);
  return module;
}

/** @param {string} name @returns {Promise<void>} once its styles hold */
function styled(name) {
  const href = `/static/css/${name}.css`;
  if (document.querySelector(`link[href="${href}"]`)) return Promise.resolve();
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  return new Promise((resolve, reject) => {
    link.onload = () => resolve();
    link.onerror = () => {
      link.remove();
      reject(new Error(`${href} could not be loaded`));
    };
    document.head.append(link);
  });
}

/**
 * part: which of its exports. quiet: nothing stands there while it comes.
 * @param {{name: string, part?: string, quiet?: boolean} & Record<string, any>} props
 */
export function Lazy({ name, part = "View", quiet = false, ...props }) {
  const phase = useSignal(/** @type {"loading" | "here" | "failed"} */ (loaded.has(name) ? "here" : "loading"));
  const tries = useSignal(0);
  useEffect(() => {
    if (loaded.has(name)) return void (phase.value = "here");
    let wanted = true;
    phase.value = "loading";
    load(name).then(
      () => wanted && (phase.value = "here"),
      () => wanted && (phase.value = "failed"),
    );
    return () => void (wanted = false);
  }, [name, tries.value]);
  const module = loaded.get(name);
  if (module) return html`<${/** @type {ComponentType<any>} */ (module[part])} ...${props} />`;
  if (phase.value === "failed") {
    return html`<p class="lazy-failed" role="alert"><${Icon} name="triangle-alert" /><span>This part of the page could not be fetched. The hub may have been upgraded or be out of reach.</span>
      <button class="button" onClick=${() => (tries.value += 1)}><${Icon} name="refresh-cw" />Try again</button></p>`;
  }
  return quiet ? null : html`<${Ghosts} words="One moment" />`;
}
