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
  event.notification.close();
  event.waitUntil(open(event.notification.data?.path ?? routes.board));
});
worker.addEventListener("pushsubscriptionchange", (/** @type {any} */ event) =>
  event.waitUntil(subscribeAgain(event)),
);

/** Every push has to be shown, also one that cannot be read. @param {any} data */
async function show(data) {
  const { title, body, topic, urgency, needing, at, ...about } = read(data);
  const low = urgency === "low";
  await worker.registration.showNotification(String(title ?? "Adsum"), {
    body: String(body ?? "Open the page to see what has changed."),
    icon: "/static/icon-192.png",
    badge: "/static/icon-badge.png",
    // A newer state of the same session takes the older one's place, and is heard unless it can wait.
    ...(topic && { tag: String(topic), renotify: !low }),
    silent: low,
    timestamp: at > 0 ? at : Date.now(),
    data: { id: about.id, kind: about.kind, path: pathTo(about) },
  });
  if (typeof needing === "number")
    await (needing > 0 ? navigator.setAppBadge?.(needing) : navigator.clearAppBadge?.());
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
async function tell(method, body) {
  /** @type {{csrf?: string}} */
  const me = await fetch("/api/v1/me").then(
    (answer) => (answer.ok ? answer.json() : {}),
    () => ({}),
  );
  const headers = { "content-type": "application/json", ...(me.csrf && { "x-csrf-token": me.csrf }) };
  await fetch("/api/v1/notify/subscriptions", { method, headers, body: JSON.stringify(body) });
}
