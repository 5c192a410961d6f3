// @ts-check
/**
 * The page's worker: keeps the page for when the hub is out of reach, and shows what is pushed.
 * Nothing of the roster is kept: what /api and /ws say never comes by here.
 */

/** @type {any} */
const worker = self;
/**
 * The hub writes it in front: a hash of the page's files, those to keep, the addresses of its views by name.
 * @type {{version: string, files: string[], routes: Record<string, string>}}
 */
const { version, files, routes } = worker.adsum;

const OURS = "adsum-page-";
const KEPT = OURS + version;
/** Under its own address a hub may want a sign-in first, and lead elsewhere. */
const PAGE = "/static/index.html";
/** A hub that is frozen, or a phone in a lift, takes connections and says nothing. */
const PATIENCE_MS = 4000;
const known = new Set(files);
/** Pages that get their files from here: they are of this version, or the hub did not answer them. */
const supplied = new Set();

worker.addEventListener("install", (/** @type {any} */ event) => event.waitUntil(keep()));
worker.addEventListener("activate", (/** @type {any} */ event) => event.waitUntil(takeOver()));

async function keep() {
  const cache = await caches.open(KEPT);
  await cache.addAll(files.map((path) => new Request(path, { cache: "no-cache" })));
  // Pages of the version before go on as they are: of what this one keeps they get nothing.
  await worker.skipWaiting();
}

async function takeOver() {
  for (const name of await caches.keys()) if (name.startsWith(OURS) && name !== KEPT) await caches.delete(name);
  await worker.clients.claim();
}

worker.addEventListener("fetch", (/** @type {any} */ event) => {
  const { method, mode, url } = event.request;
  const { origin, pathname } = new URL(url);
  if (method !== "GET" || origin !== location.origin) return;
  if (mode === "navigate") {
    if (isPage(pathname)) event.respondWith(pageFor(event));
  } else if (known.has(pathname)) event.respondWith(fileFor(event, pathname));
});

/** @param {string} path */
function isPage(path) {
  return Object.values(routes).includes(path) || path.startsWith(routes.session);
}

/** The hub's, if it answers. @param {any} event @returns {Promise<Response>} */
async function pageFor({ request, resultingClientId }) {
  const answer = await answered(request);
  if (answer?.headers.get("x-adsum-page") === version) supplied.add(resultingClientId);
  if (answer) return answer;
  supplied.add(resultingClientId);
  return (await kept(PAGE)) ?? Response.error();
}

/** @param {any} event @param {string} path @returns {Promise<Response>} */
async function fileFor({ request, clientId }, path) {
  if (supplied.has(clientId)) return (await kept(path)) ?? fetch(request);
  return (await answered(request)) ?? (await kept(path)) ?? Response.error();
}

/** @param {string} path */
async function kept(path) {
  return caches.match(path, { cacheName: KEPT });
}

/**
 * Nothing if none comes in time, or only a proxy's word that nobody is there.
 * @param {Request} request
 * @returns {Promise<Response | undefined>}
 */
async function answered(request) {
  /** @type {Promise<undefined>} */
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, undefined));
  const answer = await Promise.race([fetch(request).catch(() => undefined), late]);
  return answer && answer.status < 500 ? answer : undefined;
}

// ---- what is pushed

worker.addEventListener("push", (/** @type {any} */ event) => event.waitUntil(show(event.data)));
worker.addEventListener("notificationclick", (/** @type {any} */ event) => {
  const { notification, action } = event;
  notification.close();
  const data = notification.data ?? {};
  const chosen = data.asked && action ? decide(data, action) : open(data.path ?? routes.board);
  event.waitUntil(chosen);
});
worker.addEventListener("pushsubscriptionchange", (/** @type {any} */ event) =>
  event.waitUntil(subscribeAgain(event)),
);

/** Every push has to be shown, also one that cannot be read. @param {any} data */
async function show(data) {
  const { title, body, topic, urgency, needing, at, ...about } = read(data);
  const low = urgency === "low";
  const asked = about.kind === "needs_you" && about.id ? await askedOf(about.id) : undefined;
  const said = String(body ?? "Open the page to see what has changed.");
  await worker.registration.showNotification(String(title ?? "Adsum"), {
    body: asked ? `${asked.words}\n${said}` : said,
    ...(asked && { actions: [APPROVE, DENY], requireInteraction: true }),
    icon: "/static/icon-192.png",
    badge: "/static/icon-badge.png",
    // A newer state of the same session takes the older one's place, and is heard unless it can wait.
    ...(topic && { tag: String(topic), renotify: !low }),
    silent: low,
    timestamp: at > 0 ? at : Date.now(),
    data: { id: about.id, kind: about.kind, path: pathTo(about), ...(asked && { asked }) },
  });
  if (typeof needing === "number")
    await (needing > 0 ? navigator.setAppBadge?.(needing) : navigator.clearAppBadge?.());
}

// ---- what is asked, decided from its notification

const APPROVE = { action: "approve", title: "Approve" };
const DENY = { action: "deny", title: "Deny" };
/** One tap too many decides nothing: what lets an agent go on is asked for twice. */
const SURE = { action: "sure", title: "Yes, allow it" };
/** Longer than that a notification may cut it, and nobody allows what they do not see whole. */
const MOST_WORDS = 160;
const OUTCOME_S = 8;

/**
 * What a session asks, if this device's sign-in may decide it and all of it fits a notification. It comes from the
 * hub, not with the push, which passes by others.
 * @param {string} id
 * @returns {Promise<{words: string, request_id: string, binding: string} | undefined>}
 */
async function askedOf(id) {
  const [session, me] = await Promise.all([told(`/api/v1/sessions/${encodeURIComponent(id)}`), told("/api/v1/me")]);
  if (!me || me.role === "viewer" || session?.requests?.length !== 1) return undefined;
  if (me.hosts?.length && !me.hosts.includes(session.host_id)) return undefined;
  const [{ id: request_id, kind, tool, payload, hold }] = session.requests;
  const { command, description, ...more } = Object(payload);
  const words = `${tool}: ${command}\nin ${hold?.cwd}`;
  const whole = typeof command === "string" && Object.keys(more).length === 0 && words.length <= MOST_WORDS;
  const sound = whole && /^[\x20-\x7e]+\n[\x20-\x7e]+$/.test(words);
  const takes = kind === "permission" && hold?.cwd && !hold.partial && !hold.unverified;
  if (!sound || !takes || !["allow", "deny"].every((verb) => hold.verbs.includes(verb))) return undefined;
  return { words, request_id, binding: hold.binding };
}

/** @param {string} path @returns {Promise<any>} nothing, if the hub does not say it in time */
async function told(path) {
  const answer = await answered(new Request(path)).catch(() => undefined);
  return answer?.ok ? answer.json().catch(() => undefined) : undefined;
}

/** If it is asked no more as it was shown, the page says what is. @param {any} data @param {string} action */
async function decide({ id, path, asked, ...more }, action) {
  const now = await askedOf(id);
  if (!now || now.request_id !== asked.request_id || now.binding !== asked.binding) return open(path);
  const data = { id, path, asked, ...more };
  const note = (/** @type {string} */ title, /** @type {any[]} */ actions) =>
    worker.registration.showNotification(title, {
      ...{ body: asked.words, icon: "/static/icon-192.png", badge: "/static/icon-badge.png", tag: `decided ${id}` },
      ...{ actions, silent: true, data },
    });
  if (action === APPROVE.action) return note("Allow this?", [SURE, DENY]);
  const verb = action === SURE.action ? "allow" : "deny";
  const { request_id, binding } = asked;
  const commands = `/api/v1/sessions/${encodeURIComponent(id)}/commands`;
  const answer = await send("POST", commands, { verb, request_id, binding }).catch(() => undefined);
  if (!answer?.ok) return open(path);
  const { command } = await answer.json();
  const ended = await fetch(`${commands}/${command.id}?wait=${OUTCOME_S}`).then((got) => got.json()).catch(() => ({}));
  const became = String(ended.command?.outcome ?? "given").replaceAll("_", " ");
  delete data.asked;
  const took = became === "took effect" || became === "seconded";
  const did = verb === "allow" ? (took ? "Allowed" : "Allow") : took ? "Denied" : "Deny";
  return note(`${did}: ${became}`, []);
}

/** @param {any} data @returns {Record<string, any>} */
function read(data) {
  try {
    return Object(data.json());
  } catch {
    return {};
  }
}

/** @param {Record<string, any>} about */
function pathTo({ kind, id }) {
  if (kind === "host_offline") return routes.hosts;
  if (kind === "test") return routes.settings;
  return typeof id === "string" && id ? routes.session + encodeURIComponent(id).replaceAll("%3A", ":") : routes.board;
}

/** In a window that is open, without loading it anew; else in a new one. @param {string} path */
async function open(path) {
  const windows = await worker.clients.matchAll({ type: "window", includeUncontrolled: true });
  const found = windows.find((/** @type {any} */ each) => each.visibilityState === "visible") ?? windows[0];
  if (!found) return worker.clients.openWindow(path);
  found.postMessage({ go: path });
  // Refused where the click is no human's: then it lies open behind.
  return found.focus().catch(() => {});
}

/** The push service has given up an address: the hub is told the one that takes its place. @param {any} event */
async function subscribeAgain({ oldSubscription, newSubscription }) {
  const { public_key: key } = await (await fetch("/api/v1/notify")).json();
  const options = { userVisibleOnly: true, applicationServerKey: key };
  const found = newSubscription ?? (await worker.registration.pushManager.subscribe(options));
  await tell("POST", found.toJSON());
  if (oldSubscription && oldSubscription.endpoint !== found.endpoint)
    await tell("DELETE", { endpoint: oldSubscription.endpoint });
}

/** @param {string} method @param {unknown} body */
function tell(method, body) {
  return send(method, "/api/v1/notify/subscriptions", body);
}

/** @param {string} method @param {string} path @param {unknown} body */
async function send(method, path, body) {
  /** @type {{csrf?: string}} */
  const me = await fetch("/api/v1/me").then(
    (answer) => (answer.ok ? answer.json() : {}),
    () => ({}),
  );
  const headers = { "content-type": "application/json", ...(me.csrf && { "x-csrf-token": me.csrf }) };
  return fetch(path, { method, headers, body: JSON.stringify(body) });
}
