// @ts-check
/** Two small sheets: the views that have no tab on a phone, and the list of keyboard shortcuts. */
import { go, show } from "../core/navigation.js";
import { ROUTES } from "../core/routes.js";
import { html, Icon } from "../ui/html.js";
import { Sheet } from "../ui/overlays.js";

/** @param {{onClose: () => void}} props */
export function Menu({ onClose }) {
  return html`
    <${Sheet} name="menu" title="More" low onClose=${onClose}>
      <ul class="menu">
        <li>
          <button class="menu-link" onClick=${() => show("palette")}>
            <${Icon} name="search" />
            Search and commands
          </button>
        </li>
        ${ROUTES.slice(1).map(({ path, title, icon, of }) => html`
          <li key=${path}>
            <a class="menu-link" href=${path} onClick=${() => (onClose(), go(path))}>
              <${Icon} name=${icon} />
              ${of ? `Board ${title.toLowerCase()}` : title}
            </a>
          </li>
        `)}
      </ul>
    <//>
  `;
}

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);

/** Each with the keys that do it; those of one line follow one another. @type {[string, [string[], string][]][]} */
const SHORTCUTS = [
  [
    "Find",
    [
      [["/"], "Filter"],
      [[MAC ? "⌘" : "Ctrl", "K"], "Command palette"],
      [["1"], "Needs you"],
      [["2"], "Working"],
      [["3"], "Delivered"],
    ],
  ],
  [
    "Sessions",
    [
      [["j"], "Next session"],
      [["k"], "Previous session"],
      [["Enter"], "Open it here"],
      [["o"], "Open it as a page"],
      [["u"], "Mark as unread, or as read"],
      [["i"], "Dismiss it, until something happens there"],
      [["e"], "Archive it, until something happens there"],
      [["z"], "Put it back"],
      [["x"], "Close it; so does Esc"],
    ],
  ],
  [
    "What it asks",
    [
      [["a"], "Allow; twice where it may do harm"],
      [["d"], "Deny, or send back"],
      [["1–9"], "Choose that option"],
      [["r"], "Write: a reason, an answer, a prompt"],
      [["z"], "Undo, for three seconds"],
    ],
  ],
  [
    "Go to",
    ROUTES.flatMap(({ key, title }) => (key ? [[["g", key], title]] : [])),
  ],
  ["Help", [[["?"], "This list"]]],
];

/** @param {{onClose: () => void}} props */
export function Shortcuts({ onClose }) {
  return html`
    <${Sheet} name="shortcuts" title="Keyboard" onClose=${onClose}>
      ${SHORTCUTS.map(([name, rows]) => html`
        <section key=${name} class="shortcuts" aria-label=${name}>
          <h3>${name}</h3>
          <dl>
            ${rows.map(([keys, does]) => html`
              <div key=${does}>
                <dt>
                  ${keys.map((key, i) => html`
                    ${i > 0 && " "}
                    <kbd key=${key}>${key}</kbd>
                  `)}
                </dt>
                <dd>${does}</dd>
              </div>
            `)}
          </dl>
        </section>
      `)}
      <p class="quiet">
        In a list, 1, 2 and 3 show one group only, and all again. While a session is open, j and k go to the next
        and the previous one. Keys do nothing while you type, and none decides what has only just come into sight.
      </p>
    <//>
  `;
}
