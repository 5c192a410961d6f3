// @ts-check
/** What a tab in the background tells: who is open, the count of those who need you, and whether anything is unread. */
import { computed, effect, signal } from "./vendor/signals-core.js";
import { linkState, stale } from "./link.js";
import { countOf, known } from "./roster.js";
import { unread } from "./seen.js";

/** What the page is about, before the count: the title of the session that is open. */
export const subject = signal("");

const FRESH = `<circle cx="26" cy="6" r="6" fill="#2563eb" stroke="#fff" stroke-width="2"/>`;
/** As in icon.svg. */
const OURS =
  `<rect width="32" height="32" rx="9" fill="#1b1c20"/><circle cx="15" cy="16.5" r="6.5" fill="none" stroke="#fafaf9" stroke-width="3"/>` +
  `<path d="M21.5 10v13" stroke="#fafaf9" stroke-width="3" stroke-linecap="round"/><circle cx="15" cy="16.5" r="2.2" fill="#f5a524"/>`;

/** @param {number} count @param {boolean} stale @param {boolean} fresh something is unread */
function favicon(count, stale, fresh) {
  const text = count > 99 ? "99" : String(count);
  const size = text.length > 1 ? 17 : 21;
  const counted =
    `<rect width="32" height="32" rx="9" fill="${stale ? "#71717a" : "#b45309"}"/>` +
    `<text x="16" y="${size > 20 ? 23.5 : 22}" text-anchor="middle" font-family="system-ui,sans-serif" font-size="${size}" font-weight="700" fill="#fff">${text}</text>`;
  const drawn = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${count > 0 ? counted : OURS}${fresh ? FRESH : ""}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(drawn)}`;
}

/** On the icon of the installed app: the count, else a dot for what is unread. @param {number} count @param {boolean} fresh */
async function badge(count, fresh) {
  try {
    if (count > 0) await navigator.setAppBadge?.(count);
    else if (fresh) await navigator.setAppBadge?.();
    else await navigator.clearAppBadge?.();
  } catch {
    // Not installed, or not allowed.
  }
}

export function showAttention() {
  const link = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  const quiet = link.href;
  const needing = computed(() => countOf("needs_you"));
  const fresh = computed(() => unread.value > 0);
  const old = computed(() => known.value && stale.value);
  effect(() => {
    const counted = needing.value > 0 ? `(${needing.value}) Adsum` : "Adsum";
    const why = old.value && (linkState.value.phase === "live" ? "Stale" : "Offline");
    document.title = [why, subject.value, counted].filter(Boolean).join(" \u00b7 ");
  });
  effect(() => {
    link.href = needing.value > 0 || fresh.value ? favicon(needing.value, old.value, fresh.value) : quiet;
  });
  effect(() => void badge(needing.value, fresh.value));
}
