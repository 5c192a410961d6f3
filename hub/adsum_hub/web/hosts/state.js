// @ts-check
/** Hosts as their page shows them: problems with their next steps, who works there, the sums. */
import { computed, effect, signal } from "../vendor/signals-core.js";
import { capital, plain } from "../core/format.js";
import { byTrouble, isUnwell, troubleOf, witnessName, witnessState } from "../core/hosts.js";
import { agentOf, applyHosts, away, here, hosts, readers } from "../core/roster.js";
import { GROUPS } from "../core/states.js";

/** @import { Group, HostView, HostWitness } from "../wire.js" */

/** So many signals are more than what is just on its way. */
const MANY = 1000;
/** What may be offered to copy out of a sentence: our own commands and nothing else. */
const OURS = /`(adsum [a-z -]{1,60})`|(?<=Next: )(adsum [a-z -]{1,60})/g;

/**
 * title: in a few words. commands: the next step, on that machine. known: its state has said so.
 * @typedef {{title: string, text: string, commands: string[], known?: boolean}} Fault
 */
/** Who is on a machine, and what it runs. @typedef {{counts: Record<Group, number>, agents: string[]}} Staff */

/** @param {string} text @returns {string[]} */
function commandsIn(text) {
  return [...new Set([...text.matchAll(OURS)].map((found) => (found[1] ?? found[2]).trim()))];
}

/** The worst first. @param {HostView} host @returns {Fault[]} */
export function faultsOf(host) {
  /** @type {Fault[]} */
  const faults = [];
  if (host.reachability === "offline") {
    faults.push({
      title: "Offline",
      known: true,
      text:
        "It is switched off, cannot reach Redis, or its collector does not run. Its sessions are shown as " +
        "last seen; what they do meanwhile is stored on its disk.",
      commands: ["adsum doctor", "adsum collector"],
    });
  } else if (host.reachability === "late") {
    faults.push({
      title: "Late",
      known: true,
      text:
        "Its heartbeat is overdue: the machine sleeps, is very busy, or has just lost its connection. Look " +
        "into it if that lasts.",
      commands: ["adsum doctor"],
    });
  }
  if (host.problem)
    faults.push({ title: "Trouble", text: capital(plain(host.problem)), commands: commandsIn(host.problem) });
  const clock = troubleOf({ ...host, problem: null });
  if (clock)
    faults.push({
      title: capital(clock),
      text:
        "Times are corrected for that here, yet its days of usage, limits, logs and certificates go by its " +
        "own clock.",
      commands: ["sudo timedatectl set-ntp true"],
    });
  for (const witness of (host.witnesses ?? []).filter(isUnwell)) {
    const text = witnessNote(witness);
    const own = commandsIn(text);
    faults.push({
      title: `${capital(witnessName(witness.name))} ${witnessState(witness).words}`,
      text,
      commands: own.length > 0 ? own : ["adsum doctor"],
    });
  }
  if (host.reachability !== "offline" && (host.backlog ?? 0) >= MANY) {
    faults.push({
      title: "Behind",
      text:
        `${host.backlog?.toLocaleString()} signals wait on its disk. ` +
        "They come as fast as Redis takes them: see whether that falls.",
      commands: ["adsum collector spool"],
    });
  }
  return faults;
}

/**
 * Those with something wrong apart.
 * @param {string} words of which each must be in its name
 * @returns {{unwell: HostView[], well: HostView[]}}
 */
export function hostsFound(words) {
  const sought = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = hosts.value.filter(({ label, id }) =>
    sought.every((word) => `${label}\n${id}`.toLowerCase().includes(word)),
  );
  /** @type {{unwell: HostView[], well: HostView[]}} */
  const all = { unwell: [], well: [] };
  for (const host of [...found].sort(byTrouble)) all[faultsOf(host).length > 0 ? "unwell" : "well"].push(host);
  return all;
}

/** By the host's id. @returns {Map<string, Staff>} */
export function peopleByHost() {
  /** @type {Map<string, Staff>} */
  const found = new Map();
  for (const group of GROUPS) {
    for (const list of [here[group], away[group]]) {
      for (const entry of list.value) {
        // Neither of these changes while it stays where it is.
        const session = entry.view.peek();
        const { host_id, agent, version } = session;
        let one = found.get(host_id);
        if (!one) found.set(host_id, (one = { counts: { needs_you: 0, autonomous: 0, delivered: 0 }, agents: [] }));
        one.counts[group] += 1;
        const runs = version ? `${plain(agentOf(session)?.title ?? agent)} ${plain(version)}` : "";
        if (runs && !one.agents.includes(runs)) one.agents.push(runs);
      }
    }
  }
  return found;
}

/**
 * How many there are of each, the most first.
 * @param {(string | null | undefined)[]} all
 * @returns {[string, number][]}
 */
export function countEach(all) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const each of all) if (each) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

const EVERY_MS = 10_000;
const watchers = signal(0);

/** @returns {() => void} to be called when nobody looks any more */
export function watchAges() {
  watchers.value += 1;
  return () => void (watchers.value -= 1);
}

async function ask() {
  if (document.visibilityState === "hidden") return;
  try {
    const answer = await fetch("/api/v1/hosts", { signal: AbortSignal.timeout(EVERY_MS) });
    /** @type {{hosts: HostView[]}} */
    const { hosts } = await answer.json();
    if (answer.ok) applyHosts(hosts);
  } catch {
    // The link says that the hub is away; here the ages stay as they were.
  }
}

const watched = computed(() => watchers.value > 0);

effect(() => {
  if (!watched.value) return;
  ask();
  const timer = setInterval(ask, EVERY_MS);
  return () => clearInterval(timer);
});

/** @param {HostWitness} witness the collector's own sentence, else ours */
function witnessNote(witness) {
  if (witness.note) return plain(witness.note);
  return witness.state === "missing"
    ? "It should report and does not. See `adsum hooks status`."
    : "It reported a problem.";
}

const ASK_EVERY_MS = 4000;
/** When a machine reports that it has read everything, its last results may still be on their way. */
const AFTER_MS = 1500;

const reading = computed(() => readers.value.length > 0);

/**
 * Calls `ask` every few seconds while one reads, and once when none does any more.
 * @param {() => void} ask
 * @returns {() => void} ends it
 */
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
    const timer = setInterval(() => document.visibilityState === "visible" && ask(), ASK_EVERY_MS);
    return () => clearInterval(timer);
  });
  return () => {
    end();
    clearTimeout(last);
  };
}
