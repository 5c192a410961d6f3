// @ts-check
/** On a phone: the ways that have no tab of their own. */
import { go } from "../address.js";
import { show } from "../keys.js";
import { Icon, html } from "./html.js";
import { PLACES } from "./nav.js";
import { Sheet } from "./sheet.js";

const FURTHER = [
  { path: "/by/host", name: "Board by host", icon: "layers" },
  { path: "/by/project", name: "Board by project", icon: "folder" },
];

/** @param {{onClose: () => void}} props */
export function View({ onClose }) {
  const ways = [...FURTHER, ...PLACES.slice(1)];
  return html`<${Sheet} name="menu" title="More" low onClose=${onClose}>
    <ul class="menu"><li><button class="menu-link" onClick=${() => (onClose(), show("palette"))}><${Icon} name="search" />Search and commands</button></li>${ways.map(
      ({ path, name, icon }) => html`<li key=${path}><a class="menu-link" href=${path} onClick=${() => (onClose(), go(path))}><${Icon} name=${icon} />${name}</a></li>`,
    )}</ul>
  <//>`;
}
