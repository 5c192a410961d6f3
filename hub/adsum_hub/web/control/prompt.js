// @ts-check
/** What can be said to a session, or done with it, unasked: a prompt, its queue, interrupt, suspend and resume. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { bytes, plain } from "../core/format.js";
import { hostOf } from "../core/roster.js";
import { barred, decide, givenOf, NOTHING } from "./state.js";
import { Area, Barred, Do, Row } from "./view.js";
import { Part } from "../ui/controls.js";
import { Age, html, Until } from "../ui/html.js";

/** @import { QueuedView, SessionView } from "../wire.js" */

/** Of a prompt; a longer one is a file. */
const MOST = 10_000;

/** Which way it takes. @type {Record<string, string>} */
const WAYS = {
  terminal: "It is said at its terminal at once, as if by its user.",
  inbox: "It gets there at once, as a message from another session.",
  queue: "It works, so a prompt waits for the end of its turn.",
};

const LATER = "Nothing reaches it at once: a prompt waits for the end of its turn.";

/** Nothing where its machine's owner lets nobody do anything from elsewhere. @param {{session: SessionView}} props */
export function Prompting({ session }) {
  if ((hostOf(session)?.control ?? "off") === "off" || session.state.state === "session_ended") return null;
  const why = barred(session, "full");
  const queue = session.queue ?? [];
  return html`
    <${Part} part="prompt" title="Write to it" count=${queue.length || undefined} note=${queue.length > 0 && "queued"}>
      ${why && html`<${Barred} why=${why} session=${session} />`}
      ${queue.length > 0 && html`<${Queue} session=${session} queue=${queue} free=${!why} />`}
      ${(!why || why.passing) && html`
        <fieldset class="controls" disabled=${Boolean(why)}>
          <legend class="sr">Write to it</legend>
          ${session.suspended ? html`<${Suspended} session=${session} />` : html`<${Prompt} session=${session} />`}
        </fieldset>
      `}
    <//>
  `;
}

/** @param {{session: SessionView}} props */
function Prompt({ session }) {
  const text = useSignal("");
  const sent = useSignal(/** @type {string | undefined} */ (undefined));
  const way = session.prompt_way ?? "queue";
  const works = session.state.group === "autonomous";
  const said = text.value.trim();
  /** @param {"prompt" | "queue"} verb @param {string} words */
  const give = (verb, words) => {
    sent.value = decide(session, undefined, { ...{ verb, words, undo: true }, text: said });
    text.value = "";
  };
  const given = sent.value ? givenOf(sent.value) : undefined;
  // What came to nothing is not to be typed again.
  useEffect(() => {
    if (!given || !NOTHING.has(given.phase)) return;
    text.value ||= String(given.body.text);
    sent.value = undefined;
  }, [given?.phase]);
  return html`
    <${Row} name=${`${session.id} prompt`}>
      <${Area} text=${text} label="A prompt" reply rows=${2} most=${MOST} />
      <p class="quiet">${session.prompt_way ? WAYS[way] : LATER}</p>
      <div class="do-line">
        ${said && way !== "queue" && html`
          <${Do} does="prompt" words="Send" icon="check" look="do-main" onDo=${() => give("prompt", "Send a prompt")} />
        `}
        ${said && html`
          <${Do} does="queue" words="Queue" icon="list-plus" look=${way === "queue" ? "do-main" : ""}
            onDo=${() => give("queue", "Queue a prompt")} />
        `}
        ${works && html`
          <${Do} does="interrupt" words="Interrupt" icon="hand" grave
            onDo=${() => decide(session, undefined, { verb: "interrupt", words: "Interrupt it" })} />
        `}
        ${!works && (session.requests ?? []).length === 0 && html`
          <${Do} does="suspend" words="Suspend" icon="circle-pause" grave
            onDo=${() => decide(session, undefined, { verb: "suspend", words: "Suspend it" })} />
        `}
      </div>
    <//>
  `;
}

/** @param {{session: SessionView}} props */
function Suspended({ session }) {
  const text = useSignal("");
  const { since, by = "", auto = false, freed_bytes: freed = 0 } = session.suspended ?? { since: 0 };
  const said = text.value.trim();
  const who = auto ? ", because it had rested for long" : by && ` by ${plain(by, 60)}`;
  return html`
    <p>
      Suspended <${Age} at=${since} /> ago${who}${freed > 0 && `, which freed ${bytes(freed)}`}.
    </p>
    <${Row} name=${`${session.id} resume`}>
      <${Area} text=${text} label="A prompt to go on with, if any" reply rows=${2} most=${MOST} />
      <${Do} does="resume" words="Resume" icon="history" look="do-main"
        onDo=${() => decide(session, undefined, { verb: "resume", words: "Resume it", ...(said && { text: said }) })} />
    <//>
  `;
}

/** @param {{session: SessionView, queue: QueuedView[], free: boolean}} props free: it may be changed */
function Queue({ session, queue, free }) {
  return html`
    <ol class="queue">
      ${queue.map(({ id, text, by, at, until, state = "waiting" }, place) => html`
        <li key=${id}>
          <p dir="auto">${plain(text, MOST)}</p>
          <p class="quiet">
            by <bdi>${plain(by || "somebody", 60)}</bdi>, <${Age} at=${at} /> ago,${" "}
            ${state === "waiting" ? html`
              kept for <${Until} at=${until} />
            ` : (
              "handed over, not confirmed yet"
            )}
          </p>
          ${free && state === "waiting" && html`
            <${Row} name=${`${session.id} item ${id}`}>
              ${place > 0 && html`
                <${Do} does="up" words="Sooner" icon="arrow-up" look="do-quiet"
                  onDo=${() => move(session, id, place - 1)} />
              `}
              ${place < queue.length - 1 && html`
                <${Do} does="down" words="Later" icon="arrow-down" look="do-quiet"
                  onDo=${() => move(session, id, place + 1)} />
              `}
              <${Do} does="withdraw" words="Withdraw" icon="trash-2" look="do-quiet"
                onDo=${() => decide(session, undefined, { verb: "withdraw", words: "Withdraw it", item: id })} />
            <//>
          `}
        </li>
      `)}
    </ol>
  `;
}

/** @param {SessionView} session @param {string} item @param {number} place in the queue, 0 is next */
function move(session, item, place) {
  decide(session, undefined, { verb: "move", words: "Change the order of what is queued", item, place });
}
