// @ts-check
/** What people read for a facet and its values. */
import { plain } from "../asks.js";
import { GROUP_LOOK } from "../states.js";
import { modelName } from "./card.js";

/** @import { Facet, Filters } from "../filters.js" */
/** @import { Group } from "../wire.js" */

/** In the order in which they are offered. @type {Record<Facet, {name: string, icon: string}>} */
export const FACET_LOOK = {
  host: { name: "Host", icon: "server" },
  project: { name: "Project", icon: "folder" },
  group: { name: "Group", icon: "layers" },
  state: { name: "State", icon: "circle-dot" },
  model: { name: "Model", icon: "cpu" },
  agent: { name: "Agent", icon: "bot" },
};

export const OFFERED = /** @type {Facet[]} */ (Object.keys(FACET_LOOK));

const LONGEST = 80;

/** @param {Facet} facet @param {string} value @returns {string} */
export function nameOf(facet, value) {
  if (facet === "group" && Object.hasOwn(GROUP_LOOK, value)) return GROUP_LOOK[/** @type {Group} */ (value)].title;
  const text = plain(value, LONGEST);
  if (facet === "model") return modelName(text);
  if (facet !== "state" && facet !== "agent") return text;
  const words = text.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Filters in a few words, as a name for them. @param {Filters} wanted */
export function inWords(wanted) {
  const parts = OFFERED.flatMap((facet) => wanted[facet].map((value) => nameOf(facet, value)));
  const words = wanted.q.trim();
  return [...parts, ...(words ? [`“${plain(words, LONGEST)}”`] : [])].join(", ");
}
