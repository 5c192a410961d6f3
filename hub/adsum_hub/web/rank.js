// @ts-check
/** How well what somebody typed fits a text. Pure. */

/** Longer ones cost more than they tell. */
const LONGEST = 300;
const SCATTERED = 0.1;
const LETTER = /[\p{L}\p{N}]/u;

/** @param {string} sought @returns {string[]} */
export function wordsOf(sought) {
  return sought.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
}

/** A text as it is searched, and how much a word in it tells. @typedef {[low: string, weight: number]} Field */

/** @param {string | null | undefined} text @param {number} weight @returns {Field} */
export function field(text, weight) {
  return [(text ?? "").slice(0, LONGEST).toLowerCase(), weight];
}

/**
 * Every word must be found; at the start of the text it tells most, then at the start of a word, anywhere
 * within, and hardly anything with its letters scattered in the right order. 0: it does not fit.
 * @param {string[]} words lower case
 * @param {Field[]} fields in the first one letters may be scattered
 */
export function fit(words, fields) {
  let sum = 0;
  for (const word of words) {
    let best = 0;
    for (let i = 0; i < fields.length; i++) best = Math.max(best, fields[i][1] * near(word, fields[i][0]));
    if (best === 0 && word.length > 2 && isScattered(word, fields[0][0])) best = SCATTERED;
    if (best === 0) return 0;
    sum += best;
  }
  return sum;
}

/**
 * Those that fit; where words were found, none whose letters are but scattered.
 * @template T @param {T[]} all @param {(one: T) => number} score @returns {{one: T, score: number}[]}
 */
export function bestOf(all, score) {
  const scored = [];
  let best = 0;
  for (const one of all) {
    const found = score(one);
    if (found > 0) scored.push({ one, score: found });
    best = Math.max(best, found);
  }
  return best >= 1 ? scored.filter((each) => each.score >= 1) : scored;
}

/** The first of them, in order: to sort thousands for a dozen takes longer than a frame. @template T @param {T[]} all @param {number} most @param {(a: T, b: T) => number} compare @returns {T[]} */
export function firstOf(all, most, compare) {
  /** @type {T[]} */
  const first = [];
  for (const one of all) {
    if (first.length === most && compare(one, first[most - 1]) >= 0) continue;
    let at = first.length;
    while (at > 0 && compare(one, first[at - 1]) < 0) at -= 1;
    first.splice(at, 0, one);
    if (first.length > most) first.pop();
  }
  return first;
}

/** @param {string} word @param {string} text */
function near(word, text) {
  const first = text.indexOf(word);
  if (first < 0) return 0;
  if (first === 0) return text.length === word.length ? 10 : 8;
  let best = 3;
  for (let at = first; at > 0; at = text.indexOf(word, at + 1)) {
    if (LETTER.test(text[at - 1])) continue;
    if (!LETTER.test(text[at + word.length] ?? "")) return 7;
    best = 6;
  }
  return best;
}

/** @param {string} word @param {string} text */
function isScattered(word, text) {
  let at = -1;
  for (const letter of word) {
    at = text.indexOf(letter, at + 1);
    if (at < 0) return false;
  }
  return true;
}
