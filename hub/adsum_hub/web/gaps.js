// @ts-check
/** What of a machine's news is missing, since when and why. `adsum` has the same words, in text/words.py. Pure. */
import { plain } from "./asks.js";
import { moment } from "./clock.js";

/** @import { GapView, SessionView } from "./wire.js" */

/** @type {Record<string, string>} */
const REASONS = {
  cap: "its disk allowance was used up",
  corrupt: "its spool was damaged",
  copy: "an older copy of its disk was restored",
  rollback: "an older copy of its disk was restored",
  retention: "it was older than what that machine keeps",
  lost: "its spool was deleted",
  undecodable: "entries could not be read",
};

/** @param {GapView} gap */
export function gapWords({ at, reason, numbers = 0 }) {
  const why = Object.hasOwn(REASONS, reason) ? REASONS[reason] : plain(reason).replaceAll("_", " ");
  const what = numbers > 0 ? `${numbers.toLocaleString()} signal${numbers > 1 ? "s" : ""} from` : "Something";
  return `${what} before ${moment(at)} ${numbers > 1 ? "are" : "is"} missing: ${why}.`;
}

/** Why a session is incomplete: its host's gaps since it began, the latest first. @param {SessionView} session @param {GapView[]} gaps */
export function missingOf({ started_at }, gaps) {
  const since = gaps.filter((gap) => gap.at >= (started_at ?? 0));
  const told = (since.length > 0 ? since : gaps.slice(-1)).slice(-3).reverse().map(gapWords);
  return told.join(" ") || "Something of what it did is missing.";
}
