// @ts-check
/** One question to the hub by REST; what went wrong comes back in words for people. */

const PATIENCE_MS = 10_000;

/**
 * status: 0 if there was no answer. body: as the hub sent it, unchecked.
 * @typedef {{body: any, why?: undefined, status: number} | {body?: undefined, why: string, status: number}} Answer
 */

/** @param {string} path @param {AbortSignal} stopped @returns {Promise<Answer>} */
export async function askHub(path, stopped) {
  const signal = AbortSignal.any([stopped, AbortSignal.timeout(PATIENCE_MS)]);
  let status = 0;
  try {
    const answer = await fetch(path, { signal });
    status = answer.status;
    if (!answer.ok) return { status, why: `The hub answered with status ${status}.` };
    return { status, body: await answer.json() };
  } catch (error) {
    const name = error instanceof Error ? error.name : "";
    if (name === "TimeoutError") return { status, why: "The hub took too long to answer." };
    return { status, why: name === "SyntaxError" ? "The hub's answer could not be read." : "The hub could not be reached." };
  }
}

/** A list in an answer, or nothing if it is no such answer. @param {any} body @param {string} name @returns {any[] | undefined} */
export function listIn(body, name) {
  const list = body?.[name];
  return Array.isArray(list) ? list : undefined;
}
