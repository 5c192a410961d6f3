// @ts-check
/** What a tab in the background tells: the count of those who need you, in title and favicon. */
import { computed, effect } from "./vendor/signals-core.js";
import { linkState, stale } from "./link.js";
import { here, known } from "./roster.js";

/** @param {number} count @param {boolean} stale */
function favicon(count, stale) {
  const fill = stale ? "#71717a" : "#b45309";
  const text = count > 99 ? "99" : String(count);
  const size = text.length > 1 ? 17 : 21;
  return `data:image/svg+xml,${encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="${fill}"/>` +
    `<text x="16" y="${size > 20 ? 23.5 : 22}" text-anchor="middle" font-family="system-ui,sans-serif" font-size="${size}" font-weight="700" fill="#fff">${text}</text></svg>`,
  )}`;
}

export function showAttention() {
  const link = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  const quiet = link.href;
  const needing = computed(() => here.needs_you.value.length);
  effect(() => {
    const count = needing.value;
    const old = known.value && stale.value;
    const counted = count > 0 ? `(${count}) Adsum` : "Adsum";
    const why = linkState.value.phase === "live" ? "Stale" : "Offline";
    document.title = old ? `${why} \u00b7 ${counted}` : counted;
    link.href = count > 0 ? favicon(count, old) : quiet;
  });
}
