// @ts-check
/** Signing in: the code leaves the address before it is sent, and the page goes where it was wanted. */

const PATIENCE_MS = 10_000;
const CODE = /^[\w-]{32}$/;

const form = /** @type {HTMLFormElement} */ (document.getElementById("form"));
const box = /** @type {HTMLInputElement} */ (document.getElementById("code"));
const said = /** @type {HTMLElement} */ (document.getElementById("said"));
let busy = false;

/** Where to go then: on this hub alone, whatever the address says. @returns {string} */
function wanted() {
  const named = new URLSearchParams(location.search).get("next") ?? "/";
  try {
    const place = new URL(named, location.origin);
    const ours = place.origin === location.origin && named.startsWith("/") && place.pathname !== "/login";
    // Whole: a path such as /.//elsewhere would, alone, be read as another host's.
    return ours ? place.href : "/";
  } catch {
    return "/";
  }
}

/** Taken out of the address at once: what stands there is kept, synchronised and shown to others. @returns {string} */
function takeCode() {
  const code = location.hash.slice(1);
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** A whole link will do as well. @param {string} text */
function codeIn(text) {
  return text.slice(text.lastIndexOf("#") + 1).trim();
}

/** What stands `in backticks` is to be typed. @param {string} text @param {"wrong" | "going"} how */
function say(text, how) {
  said.replaceChildren(...text.split("`").map((part, i) => (i % 2 ? typed(part) : part)));
  said.dataset.how = how;
}

/** @param {string} text */
function typed(text) {
  const code = document.createElement("code");
  code.textContent = text;
  return code;
}

/** Why the page has led here, if it has. */
function sayWhy() {
  const told = new URLSearchParams(location.search);
  if (told.has("out")) say("You are signed out.", "going");
  else if (told.has("over")) say("This sign-in has expired or was revoked.", "going");
}

/** @param {string} path @param {RequestInit} [more] */
async function ask(path, more) {
  try {
    const answer = await fetch(path, { ...more, signal: AbortSignal.timeout(PATIENCE_MS) });
    const body = await answer.json().catch(() => ({}));
    return {
      status: answer.status,
      ok: answer.ok,
      why: `${body.error ?? `The hub answered with status ${answer.status}.`} ${body.next ?? ""}`.trim(),
    };
  } catch {
    return { status: 0, ok: false, why: "The hub could not be reached. Try again." };
  }
}

/** @param {string} code */
async function send(code) {
  if (!CODE.test(code))
    return ask("/api/v1/me").then(({ ok }) => ({
      ok,
      status: 400,
      why: "This is not a login link, or part of it is missing. Copy all of it.",
    }));
  const headers = { "content-type": "application/json" };
  const sent = await ask("/api/v1/login", { method: "POST", headers, body: JSON.stringify({ code }) });
  if (sent.status !== 401 && sent.status !== 410) return sent;
  // A link opened a second time where it worked: whoever is in may go on.
  return { ...sent, ok: (await ask("/api/v1/me")).ok };
}

/** @param {string} code */
async function signIn(code) {
  if (busy) return;
  busy = true;
  say("Signing in…", "going");
  const { ok, status, why } = await send(code);
  busy = false;
  if (ok) return location.replace(wanted());
  say(why, "wrong");
  // Not used up: the same one may do in a moment.
  const again = status === 0 || status === 429 || status === 503;
  offer(again ? code : "");
}

/** @param {string} [code] */
function offer(code = "") {
  form.hidden = false;
  box.value = code;
  box.focus();
}

async function start() {
  const code = takeCode();
  if (code) return signIn(code);
  const { ok, status, why } = await ask("/api/v1/me");
  if (ok) return location.replace(wanted());
  if (status !== 401) say(why, "wrong");
  else sayWhy();
  offer();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const code = codeIn(box.value);
  if (code) signIn(code);
  else (say("Paste the link or the code at its end.", "wrong"), box.focus());
});
// Another link opened in this tab changes nothing but what follows the #.
addEventListener("hashchange", () => {
  if (location.hash) start();
});
start();
export {};
