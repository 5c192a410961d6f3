// @ts-check
/** Parts of the page that the first load does not need: their modules and styles are fetched when they are drawn. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { Ghosts, html, Icon } from "./html.js";

/** @import { ComponentType } from "../vendor/preact.js" */

/** @param {string} name of a stylesheet, such as "list/list" @returns {Promise<void>} once it holds */
function styled(name) {
  const href = `/static/${name}.css`;
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
 * A component that draws one of a module's exports once it has come; at once the next time.
 * part: which export. quiet: nothing stands there while it comes.
 * @param {() => Promise<Record<string, any>>} load
 * @param {...string} styles
 * @returns {ComponentType<{part?: string, quiet?: boolean} & Record<string, any>>}
 */
export function lazy(load, ...styles) {
  /** @type {Record<string, any> | undefined} */
  let module;
  const fetchAll = async () => {
    const [loaded] = await Promise.all([load(), ...["ui/panel", ...styles].map(styled)]);
    module = loaded;
  };
  return function Lazy({ part = "View", quiet = false, ...props }) {
    const phase = useSignal(/** @type {"loading" | "here" | "failed"} */ (module ? "here" : "loading"));
    const tries = useSignal(0);
    useEffect(() => {
      if (module) return void (phase.value = "here");
      let wanted = true;
      phase.value = "loading";
      fetchAll().then(
        () => wanted && (phase.value = "here"),
        () => wanted && (phase.value = "failed"),
      );
      return () => void (wanted = false);
    }, [tries.value]);
    // Read, so that it is drawn again once it is here.
    const now = phase.value;
    if (module) return html`<${/** @type {ComponentType<any>} */ (module[part])} ...${props} />`;
    if (now === "failed") return html`<${Failed} onRetry=${() => (tries.value += 1)} />`;
    return quiet ? null : html`<${Ghosts} words="Loading" />`;
  };
}

/** @param {{onRetry: () => void}} props */
function Failed({ onRetry }) {
  return html`
    <p class="lazy-failed" role="alert">
      <${Icon} name="triangle-alert" />
      <span>This part of the page could not be loaded. The hub may be out of reach or have been upgraded.</span>
      <button class="button" onClick=${onRetry}>
        <${Icon} name="refresh-cw" />
        Try again
      </button>
    </p>
  `;
}
