// @ts-check
/** Machines that read their history: what is shown of the past changes until they are done. */
import { computed, effect } from "./vendor/signals-core.js";
import { hosts } from "./roster.js";

const EVERY_MS = 4000;
/** What a machine read last is on its way while it says that it is done. */
const AFTER_MS = 1500;

export const readers = computed(() => hosts.value.filter((host) => host.scan));
const reading = computed(() => readers.value.length > 0);

/** In percent; never all of it, for what is read has still to be told. @param {import("./wire.js").ScanProgress} scan */
export function shareOf({ files, files_done, bytes, bytes_done }) {
  const share = bytes > 0 ? bytes_done / bytes : files > 0 ? files_done / files : 0;
  return Math.min(99, Math.floor(100 * Math.min(1, share)));
}

/** Calls `ask` every few seconds while one reads, and once when none does any more. @param {() => void} ask @returns {() => void} ends it */
export function whileReading(ask) {
  let read = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let last;
  const end = effect(() => {
    clearTimeout(last);
    if (!reading.value) {
      if (read) last = setTimeout(ask, AFTER_MS);
      return;
    }
    read = true;
    const timer = setInterval(() => document.visibilityState === "visible" && ask(), EVERY_MS);
    return () => clearInterval(timer);
  });
  return () => {
    end();
    clearTimeout(last);
  };
}
