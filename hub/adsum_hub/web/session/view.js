// @ts-check
/** All there is about one session: as a page, or over the list that it was opened from. */
import { useEffect, useMemo } from "../vendor/preact-hooks.js";
import { computed, effect } from "../vendor/signals-core.js";
import { useSignal } from "../vendor/signals.js";
import { Badge } from "../board/card.js";
import { Requests } from "../control/details.js";
import { Prompting } from "../control/prompt.js";
import { Decisions, Said } from "../control/view.js";
import { me } from "../core/api.js";
import { isSeen, markNoticed, markSeen, putAside, subject, toggleSeen } from "../core/attention.js";
import { moment, plain } from "../core/format.js";
import { missingOf } from "../core/hosts.js";
import { linkState, stale, trouble } from "../core/link.js";
import { closeSession, go, listView, opened, openSession, view } from "../core/navigation.js";
import { entryOf, hostOf, whole } from "../core/roster.js";
import { pathTo, routeOf, sessionPath } from "../core/routes.js";
import { isOver, titleOf, toneOf } from "../core/states.js";
import { SinceWhen } from "../frame/empty.js";
import { Family, Log } from "./activity.js";
import { About, Raw, SessionWitnesses, ToDo, UsageFacts, Warnings, Why, Words } from "./facts.js";
import { fetchSession, followActivity, neighboursOf } from "./state.js";
import { Copy, Part } from "../ui/controls.js";
import { Age, Ghosts, html, Icon, Sentence } from "../ui/html.js";
import { Sheet } from "../ui/overlays.js";

/** @import { Verb } from "../core/attention.js" */
/** @import { Past } from "./state.js" */
/** @import { SessionView } from "../wire.js" */

/**
 * Which way the reader went from the session before: the focus stays on that button.
 * @type {"previous" | "next" | undefined}
 */
let stepped;

/** As the whole page. @param {{id: string}} props */
export function View({ id }) {
  const { title, session, content } = useSession(id);
  const from = routeOf(listView.value);
  return html`
    <article class="session" data-tone=${session && toneOf(session.state)} aria-labelledby="view-title">
      <header class="session-head">
        <div class="session-ways">
          <a class="way" href=${from.path}>
            <${Icon} name="chevron-left" />
            <span class="way-words">${from.title}</span>
          </a>
          <${Steps} id=${id} to=${(/** @type {string} */ other) => go(sessionPath(other))} />
          <span class="ways-end">
            <${Ways} id=${id} session=${session} words />
          </span>
        </div>
        <h2 id="view-title" tabindex="-1">
          <bdi>${title}</bdi>
        </h2>
        ${session && html`<${Standing} session=${session} />`}
      </header>
      ${content}
    </article>
  `;
}

/** Over the view from which it was opened. @param {{id: string}} props */
export function Over({ id }) {
  const { title, session, content } = useSession(id);
  const still = useMemo(() => stepped !== undefined, []);
  // Closed by the reader, not because it has become the page or given way to another.
  const onClose = () => opened.value === id && view.value !== "session" && closeSession();
  const ways = html`
    <${Steps} id=${id} to=${openSession} />
    <a class="way" href=${sessionPath(id)} data-page="1" title="Open as a page">
      <${Icon} name="maximize-2" />
      <span class="sr">Open as a page</span>
    </a>
    <${Ways} id=${id} session=${session} />
  `;
  return html`
    <${Sheet}
      name="sheet"
      title=${title}
      tone=${session && toneOf(session.state)}
      still=${still}
      ways=${ways}
      under=${session && html`<${Standing} session=${session} />`}
      onClose=${onClose}
      onGone=${() => focusCard(id)}
    >
      ${content}
      <${Said} />
    <//>
  `;
}

/** @param {string} id */
function useSession(id) {
  const live = useMemo(() => computed(() => entryOf(id)?.view.value), [id]);
  // Who is on the roll is asked for already.
  const { past, askAgain } = usePast(id, live.value === undefined && (whole.value || stale.value));
  const shown = useMemo(() => computed(() => live.value ?? past.value.session), [live, past]);
  const session = shown.value;
  const title = session
    ? titleOf(session)
    : {
        loading: stale.value ? "No answer yet" : "Loading",
        failed: "No answer",
        left: "No such session",
        shown: "",
      }[past.value.phase];
  useEffect(() => {
    subject.value = title;
    return () => void (subject.value = "");
  }, [title]);
  useLooking(id, live);
  const content = html`
    ${session ? html`
      <${NotLive} />
      <${Whole} session=${session} shown=${shown} />
    ` : html`
      <${Elsewhere} id=${id} past=${past.value} askAgain=${askAgain} />
    `}
  `;
  return { title, session, content };
}

/**
 * Open is looked at: at once, and whatever comes while the reader is there.
 * @param {string} id
 * @param {import("../vendor/signals.js").ReadonlySignal<SessionView | undefined>} live
 */
function useLooking(id, live) {
  const here = live.value !== undefined;
  useEffect(() => {
    if (here) markSeen(id);
  }, [id, here]);
  useEffect(() => {
    const look = () => void (document.hasFocus() && document.visibilityState === "visible" && markNoticed([id]));
    const end = effect(() => {
      if (live.value) queueMicrotask(look);
    });
    addEventListener("focus", look);
    return () => {
      end();
      removeEventListener("focus", look);
    };
  }, [live]);
}

/** One that is not on the roll, as the hub still knows it. @param {string} id @param {boolean} wanted */
function usePast(id, wanted) {
  const past = useSignal(/** @type {Past} */ ({ phase: "loading" }));
  const tries = useSignal(0);
  useEffect(() => {
    if (!wanted) return;
    const stopped = new AbortController();
    past.value = { phase: "loading" };
    fetchSession(id, stopped.signal).then((answer) => {
      if (!stopped.signal.aborted) past.value = answer;
    });
    return () => stopped.abort();
  }, [id, wanted, tries.value]);
  return { past, askAgain: () => (tries.value += 1) };
}

/** The card may have moved to another section, where the browser does not find it. @param {string} id */
function focusCard(id) {
  const active = document.activeElement;
  // Until the next frame what is closed may keep the focus, and takes it along when it goes.
  if (active && active !== document.body && !active.closest("dialog:not([open])")) return;
  const card = document.querySelector(`[data-id="${CSS.escape(id)}"] :is(.open, .row-open)`);
  if (card instanceof HTMLElement) card.focus();
}

/** To those before and after it in the list. @param {{id: string, to: (id: string) => void}} props */
function Steps({ id, to }) {
  const around = useMemo(() => computed(() => neighboursOf(id)), [id]);
  const { previous, next, place, count } = around.value;
  // Once the sheet has given the focus to its heading.
  useEffect(() => {
    if (stepped) /** @type {HTMLElement | null} */ (document.querySelector(`[data-step="${stepped}"]`))?.focus();
    stepped = undefined;
  }, [id]);
  if (place === 0 || count < 2) return null;
  const step = (
    /** @type {"previous" | "next"} */ way,
    /** @type {string | undefined} */ other,
    /** @type {string} */ words,
    /** @type {string} */ icon,
  ) => html`
    <button
      class="way"
      data-step=${way}
      aria-disabled=${!other}
      title=${words}
      aria-label=${words}
      onClick=${() => {
        if (!other) return;
        stepped = way;
        to(other);
      }}
    >
      <${Icon} name=${icon} />
    </button>
  `;
  return html`
    <span class="steps-around">
      ${step("previous", previous, "Previous session", "arrow-up")}
      <span class="place">
        <span class="sr">session </span>
        ${place.toLocaleString()}
        <span aria-hidden="true">/</span>
        <span class="sr"> of </span>
        ${count.toLocaleString()}
      </span>
      ${step("next", next, "Next session", "arrow-down")}
    </span>
  `;
}

/** @param {{id: string, session?: SessionView, words?: boolean}} props words: beside the icons */
function Ways({ id, session, words = false }) {
  const seen = !session || isSeen(session);
  const onRoll = useMemo(() => computed(() => entryOf(id) !== undefined), [id]);
  return html`
    <${Copy}
      text=${location.origin + sessionPath(id)}
      what="the link to this session"
      words=${words ? "Copy link" : ""}
    />
    ${session && (onRoll.value || session.state.state === "archived") && html`
      <${AsideWays} session=${session} words=${words} />
    `}
    ${onRoll.value && html`
      <button class="way" aria-pressed=${!seen} title="Mark as unread" onClick=${() => toggleSeen(id)}>
        <${Icon} name=${seen ? "circle-dashed" : "circle-dot"} />
        <span class=${words ? "way-words" : "sr"}>Unread</span>
      </button>
    `}
  `;
}

/** @type {Record<Verb, {title: string, icon: string}>} */
const WAYS = {
  dismiss: { title: "Dismiss", icon: "check" },
  archive: { title: "Archive", icon: "archive" },
  restore: { title: "Put back", icon: "history" },
};

/** None for who may only look. @param {{session: SessionView, words?: boolean}} props words: beside the icons */
function AsideWays({ session, words = false }) {
  const who = me.value;
  if (who?.role === "viewer" || (who?.hosts?.length && !who.hosts.includes(session.host_id))) return null;
  const aside = session.state.state === "archived";
  /** @type {Verb[]} */
  const verbs = aside ? ["restore"] : ["dismiss", "archive"];
  return verbs.map((verb) => html`
    <button
      key=${verb}
      class="way"
      title=${`${WAYS[verb].title}, until something happens there`}
      onClick=${() => putAside(session.id, titleOf(session), verb)}
    >
      <${Icon} name=${WAYS[verb].icon} />
      <span class=${words ? "way-words" : "sr"}>${WAYS[verb].title}</span>
    </button>
  `);
}

/** How it stands, in a line that stays in sight. @param {{session: SessionView}} props */
function Standing({ session }) {
  return html`
    <p class="standing">
      <${Badge} session=${session} />
      <${Age} at=${session.state.since} />
    </p>
  `;
}

/** Of what is shown. */
function NotLive() {
  if (!stale.value) return null;
  const { phase, since } = linkState.value;
  const at = phase === "live" && trouble.value ? trouble.value.since : since;
  return html`
    <p class="sheet-stale" role="alert">
      <${Icon} name="wifi-off" />
      <span>
        <strong>Not live.</strong> Last updated ${at ? `at ${moment(at)}` : "when it was loaded"}.
      </span>
    </p>
  `;
}

/** @param {{id: string, past: Past, askAgain: () => void}} props */
function Elsewhere({ id, past: { phase, why }, askAgain }) {
  const since = html`<${SinceWhen} />`;
  if (phase === "loading")
    return html`
      ${stale.value && since}
      <${Ghosts} words="Loading" />
    `;
  if (phase === "failed")
    return html`
      <p class="log-failed" role="alert">
        <${Icon} name="triangle-alert" />
        <span>
          <${Sentence} text=${why ?? ""} />
        </span>
        <button class="button" onClick=${askAgain}>
          <${Icon} name="refresh-cw" />
          Try again
        </button>
      </p>
      ${since}
    `;
  return html`
    <div class="not-found">
      <p class="quiet">
        There is no session <code>${plain(id)}</code>, neither in the live list nor in the history. It may have
        ended too long ago, or the address is wrong.
      </p>
      <p class="ways">
        <a class="button" href=${pathTo("board")}>
          <${Icon} name="columns-3" />
          Board
        </a>
        <a class="button" href=${pathTo("history")}>
          <${Icon} name="archive" />
          History
        </a>
      </p>
    </div>
  `;
}

/**
 * @param {{session: SessionView, shown: import("../vendor/signals.js").ReadonlySignal<SessionView | undefined>}} props
 */
function Whole({ session, shown }) {
  const { state, requests = [], children = [] } = session;
  const followed = useMemo(() => followActivity(session.id, shown), [session.id]);
  useEffect(() => followed.stop, [followed]);
  const running = children.filter((child) => child.finished_at == null).length;
  return html`
    <div class="session-body">
      <div class="session-main">
        ${requests.length > 0 && html`
          <${Part} part="requests" title="Asks you" count=${requests.length}>
            <${Requests} session=${session} />
          <//>
        `}
        <${Why} session=${session} />
        <${Warnings} session=${session} />
        ${session.incomplete && html`
          <div class="warning" role="note">
            <p>
              <${Icon} name="triangle-alert" />
              <strong>Incomplete.</strong> ${missingOf(session, hostOf(session)?.gaps ?? [])} What is shown is the
              best that is known.
            </p>
          </div>
        `}
        <${ToDo} session=${session} />
        <${Words} session=${session} />
        <${Prompting} session=${session} />
        <${Decisions} session=${session} />
        ${children.length > 0 && html`
          <${Part} part="children" title="Children" count=${children.length} note=${`${running} running`}>
            <${Family} list=${children} over=${isOver(state)} />
          <//>
        `}
        <${Part} part="activity" title="Activity" note="newest turn first">
          <${Log} activity=${followed.activity} family=${children} over=${isOver(state)} askNow=${followed.askNow} />
        <//>
      </div>
      <div class="session-side">
        ${(session.usage || session.context) && html`
          <${Part} part="usage" title="Usage">
            <${UsageFacts} session=${session} />
          <//>
        `}
        <${Part} part="about" title="About">
          <${About} session=${session} />
        <//>
        <${Part} part="witnesses" title="Witnesses">
          <${SessionWitnesses} session=${session} />
        <//>
        <${Raw} id=${session.id} />
      </div>
    </div>
  `;
}
