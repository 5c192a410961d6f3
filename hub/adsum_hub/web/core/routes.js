// @ts-check
/** Every address of the page, and what navigation, keys and lists call it. The hub serves what stands here. */

/**
 * In the order of the navigation. key: pressed after "g". groupedBy: the live list, grouped by that. of: the view
 * as which the navigation shows it.
 * @typedef {object} Route
 * @property {ViewName} view
 * @property {string} path
 * @property {string} title
 * @property {string} icon
 * @property {string} [key]
 * @property {string} [groupedBy]
 * @property {ViewName} [of]
 */
/**
 * @typedef {"board" | "host" | "project" | "agent" | "list" | "hosts" | "usage" | "history" | "settings" | "session"
 *   | "nowhere"} ViewName
 */

/** @type {Route[]} */
export const ROUTES = [
  { view: "board", path: "/", title: "Board", icon: "columns-3", key: "b", groupedBy: "State" },
  { view: "host", path: "/by/host", title: "By host", icon: "layers", groupedBy: "Host", of: "board" },
  { view: "project", path: "/by/project", title: "By project", icon: "folder", groupedBy: "Project", of: "board" },
  { view: "agent", path: "/by/agent", title: "By agent", icon: "bot", groupedBy: "Agent", of: "board" },
  { view: "list", path: "/list", title: "List", icon: "list", key: "l", groupedBy: "None" },
  { view: "hosts", path: "/hosts", title: "Hosts", icon: "server", key: "h" },
  { view: "usage", path: "/usage", title: "Usage", icon: "wallet", key: "u" },
  { view: "history", path: "/history", title: "History", icon: "archive", key: "y" },
  { view: "settings", path: "/settings", title: "Settings", icon: "settings", key: "s" },
];
/** Those with a place of their own in the navigation. */
export const PLACES = ROUTES.filter(({ of }) => !of);
/** The forms of the live list. */
export const LISTS = ROUTES.filter(({ groupedBy }) => groupedBy);

/** Followed by the session's id. */
const SESSION = { view: "session", path: "/sessions/" };

/** @param {string} path @returns {ViewName} */
export function viewOf(path) {
  if (path.startsWith(SESSION.path) && path !== SESSION.path) return "session";
  return ROUTES.find((route) => route.path === path)?.view ?? "nowhere";
}

/** @param {ViewName} name */
export function routeOf(name) {
  return ROUTES.find(({ view }) => view === name) ?? ROUTES[0];
}

/** @param {ViewName} name */
export function pathTo(name) {
  return routeOf(name).path;
}

/** @param {string} path of a session */
export function sessionIdIn(path) {
  const said = path.slice(SESSION.path.length);
  try {
    return decodeURIComponent(said);
  } catch {
    return said; // a per cent sign that stands for nothing
  }
}

/** @param {string} id */
export function sessionPath(id) {
  return SESSION.path + encodeURIComponent(id).replaceAll("%3A", ":");
}

/** Whether a view is a form of the live list. @param {ViewName} name */
export function isList(name) {
  return LISTS.some(({ view }) => view === name);
}
