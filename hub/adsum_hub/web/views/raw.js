// @ts-check
/** A session exactly as the hub tells of it: its JSON, as text, fetched when somebody wants it. */
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { askHub } from "../fetching.js";
import { Copy } from "./copy.js";
import { Icon, html } from "./html.js";

/** Control characters and marks that reverse the writing, in the escapes that JSON has for them. @param {unknown} value */
function asText(value) {
  // eslint-disable-next-line no-control-regex
  const hidden = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  return JSON.stringify(value, null, 2).replace(hidden, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** @param {{id: string}} props */
export function Raw({ id }) {
  const told = useSignal(/** @type {{text?: string, why?: string}} */ ({}));
  const stopped = useRef(/** @type {AbortController | undefined} */ (undefined));
  useEffect(() => () => stopped.current?.abort(), []);
  const ask = async () => {
    stopped.current?.abort();
    const asked = (stopped.current = new AbortController());
    const path = `/api/v1/sessions/${encodeURIComponent(id)}`;
    const { body, why } = await askHub(path, asked.signal);
    if (!asked.signal.aborted) told.value = why ? { ...told.peek(), why } : { text: asText(body) };
  };
  const { text, why } = told.value;
  return html`<details class="part raw-part" data-part="raw" onToggle=${(/** @type {Event} */ toggled) => /** @type {HTMLDetailsElement} */ (toggled.target).open && ask()}>
    <summary><${Icon} name="chevron-right" /><h3>Raw</h3><span class="part-note">as the API gives it</span></summary>
    ${why && html`<p class="log-failed" role="alert"><${Icon} name="triangle-alert" /><span>${why}</span><button class="button" onClick=${ask}><${Icon} name="refresh-cw" />Try again</button></p>`}
    ${text === undefined ? !why && html`<p class="quiet" role="status">Fetching it</p>` : html`<div class="raw-ways"><${Copy} text=${text} what="the JSON" words="Copy" /><button class="way" onClick=${ask}><${Icon} name="refresh-cw" /><span class="way-words">Fetch again</span></button></div>
      <pre class="json" tabindex="0" role="region" aria-label="The session as JSON">${text}</pre>`}
  </details>`;
}
