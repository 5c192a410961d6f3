// @ts-check
/** How many sessions are over, asked for while nobody is on the roll. */
import { signal } from "./vendor/signals-core.js";
import { askHub } from "./fetching.js";
import { whileReading } from "./reading.js";

/** Nothing until the hub has said. */
export const remembered = signal(/** @type {number | undefined} */ (undefined));

/** @returns {() => void} to be called when nobody looks any more */
export function watchRemembered() {
  const stopped = new AbortController();
  const ask = async () => {
    const { body } = await askHub("/api/v1/history?limit=1", stopped.signal);
    // What goes wrong is the link's to tell; here the last word stands.
    if (!stopped.signal.aborted && typeof body?.total === "number") remembered.value = body.total;
  };
  ask();
  const end = whileReading(ask);
  return () => {
    stopped.abort();
    end();
  };
}
