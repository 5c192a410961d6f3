// @ts-check
/** Which keys do what. */
import { html } from "./html.js";
import { Sheet } from "./sheet.js";

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Each with the keys that do it; those of one line follow one another. @type {[string, [string[], string][]][]} */
const KEYS = [
  ["Find", [
    [["/"], "Filter"],
    [[MAC ? "⌘" : "Ctrl", "K"], "Command palette"],
    [["1"], "Needs you"],
    [["2"], "Working"],
    [["3"], "Delivered"],
  ]],
  ["Sessions", [
    [["j"], "Next session"],
    [["k"], "Session before"],
    [["Enter"], "Open it here"],
    [["o"], "Open it as a page"],
    [["u"], "Mark as unread, or as read"],
    [["x"], "Close it; so does Esc"],
  ]],
  ["Go to", [
    [["g", "b"], "Board"],
    [["g", "l"], "List"],
    [["g", "h"], "Hosts"],
    [["g", "u"], "Usage"],
    [["g", "y"], "History"],
    [["g", "s"], "Settings"],
  ]],
  ["Help", [[["?"], "This list"]]],
];

/** @param {{onClose: () => void}} props */
export function View({ onClose }) {
  return html`<${Sheet} name="shortcuts" title="Keyboard" onClose=${onClose}>
    ${KEYS.map(([name, rows]) => html`<section key=${name} class="shortcuts" aria-label=${name}><h3>${name}</h3>
      <dl>${rows.map(([keys, does]) => html`<div key=${does}><dt>${keys.map((key, i) => html`${i > 0 && " "}<kbd key=${key}>${key}</kbd>`)}</dt><dd>${does}</dd></div>`)}</dl>
    </section>`)}
    <p class="quiet">In a list of rows 1, 2 and 3 show one group alone, and all again. While a session lies open, j and k go to the next one. Keys do nothing while you type.</p>
  <//>`;
}
