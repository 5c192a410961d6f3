// @ts-check
/** Signing out: pushes to this browser end with it, for what they tell is for those who are signed in. */
import { signingOut, tellHub, toLogin } from "./fetching.js";
import { turnOff } from "./notify.js";

/** @returns {Promise<string | undefined>} what kept it from being done, in words for people */
export async function signOut() {
  // Nothing of pushes may keep anybody from leaving.
  await turnOff().catch(() => {});
  // The link may learn of it first.
  signingOut(true);
  const { why } = await tellHub("POST", "/api/v1/logout");
  if (why === undefined) toLogin();
  else signingOut(false);
  return why;
}
