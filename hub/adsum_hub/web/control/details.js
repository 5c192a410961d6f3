// @ts-check
/** What a session asks, in full, with all that can be said to it: forms, diffs, plans; why not, where nothing can. */
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { askerOf } from "../board/card.js";
import { me } from "../core/api.js";
import { plain, record, visible } from "../core/format.js";
import { hubNow } from "../core/link.js";
import { openRequests } from "../core/requests.js";
import { titleOf } from "../core/states.js";
import { blocksOf, contentOf, editOf, fieldsOf, foldBlank, fullOf, isGrave, spansOf } from "./read.js";
import { decide, EXTEND_MS, extendHold, givenOf, keyOf, sameAsked, whyNot } from "./state.js";
import { allow, Area, Barred, cautionsOf, deny, Do, Extent, Fate, Fields, isDecided, Row } from "./view.js";
import { Age, Code, html, Icon, Until } from "../ui/html.js";

/** @import { Signal } from "../vendor/signals-core.js" */
/** @import { Edit, Field } from "./read.js" */
/** @import { Asked } from "./view.js" */
/** @import { SessionView } from "../wire.js" */

/** A request keeps its element when a hook holds it only later. @param {{session: SessionView}} props */
export function Requests({ session }) {
  return openRequests(session).map((request) => html`
    <${Request} key=${`${session.id} ${request.id}`} session=${session} request=${request} />
  `);
}

/** @param {Asked} asked */
function Request({ session, request }) {
  const { title, note: told, main, code, shell, questions, fields } = fullOf(request);
  const edit = editOf(request);
  const plan = request.kind === "plan" ? record(request.payload).plan : undefined;
  const asks = request.hold?.verbs.some((verb) => verb === "answer" || verb === "elicit");
  const { agent_id: by, hold, tool } = request;
  const forms = hold?.verbs.includes("elicit");
  const rest = edit ? [] : fields.filter(([name]) => !(forms && name === "requested schema"));
  return html`
    <article class="request" data-kind=${request.kind}>
      <header class="request-head">
        <h4>${title}${request.kind === "dialog" && tool && `: ${plain(tool)}`}</h4>
        <span class="open-since">
          asked <${Age} at=${request.opened_at} /> ago
          ${hold && html`, can be answered here for <${Until} at=${hold.until} /> more`}
        </span>
      </header>
      ${cautionsOf(request).map((words) => html`<p key=${words} class="caution">${words}</p>`)}
      ${hold?.cwd && html`<p class="ask-note">in <code><${Code} text=${hold.cwd} /></code></p>`}
      ${by && html`<p class="ask-note">asked by ${askerOf(by, session.children ?? [])}</p>`}
      ${told && html`<p class="ask-note" dir="auto">${told}</p>`}
      ${edit ? html`
        <${Diff} edit=${edit} />
      ` : typeof plan === "string" && plan.trim() ? html`
        <${Plan} text=${plan} />
      ` : main && html`
        <pre class="request-main" data-shell=${shell} dir=${code ? "ltr" : "auto"}>
          ${code ? html`<${Code} text=${main} />` : main}
        </pre>
      `}
      ${!asks && questions.map((question, i) => html`<${Question} key=${i} question=${question} />`)}
      ${rest.length > 0 && html`<${Fields} fields=${rest} />`}
      <${Deciding} key=${keyOf(session, request)} session=${session} request=${request} />
    </article>
  `;
}

/** That nobody can answer here. @param {{question: import("./read.js").Question}} props */
function Question({ question }) {
  return html`
    <div class="asked">
      <p class="asked-text" dir="auto">${question.text}</p>
      ${question.several && html`<p class="ask-note">several answers are possible</p>`}
      ${question.options.length > 0 && html`
        <ol class="answers">
          ${question.options.map(({ label, words }, i) => html`
            <li key=${i} dir="auto">
              <b>${label}</b>
              ${words && html`<span>${words}</span>`}
            </li>
          `)}
        </ol>
      `}
    </div>
  `;
}

/** @param {{edit: Edit}} props */
function Diff({ edit }) {
  return html`
    <p class="diff-path">
      <${Icon} name="pen-line" />
      <${Code} text=${edit.path} />
      ${edit.whole && html`<span>writes the whole file</span>`}
      ${edit.all && html`<span>replace all: wherever it stands</span>`}
    </p>
    ${edit.edits.map((lines, i) => html`
      <pre key=${i} class="diff" dir="ltr" tabindex="0" role="region" aria-label="What changes">
        ${foldBlank(lines).map(({ sign, text, blank }, at) => html`
          <span key=${at} data-sign=${sign}>
            ${`${sign} `}
            ${blank ? html`<mark data-hidden="true">${blank} blank lines</mark>` : html`<${Code} text=${text} />`}
            ${"\n"}
          </span>
        `)}
      </pre>
    `)}
  `;
}

/** @param {{text: string}} props */
function Plan({ text }) {
  return html`
    <div class="plan" dir="auto">
      ${blocksOf(text).map(({ kind, text: words, level, mark }, i) => {
        if (kind === "heading")
          return html`<p key=${i} class="plan-head" data-level=${level}><${Spans} text=${words} /></p>`;
        if (kind === "item")
          return html`
            <p key=${i} class="plan-item" data-level=${level}>
              <span>${mark}</span>
              <span><${Spans} text=${words} /></span>
            </p>
          `;
        if (kind === "code")
          return html`
            <pre key=${i} class="request-main" dir="ltr" title=${plain(mark)}>
              <${Code} text=${words} />
            </pre>
          `;
        return html`<p key=${i} class=${`plan-${kind}`}><${Spans} text=${words} /></p>`;
      })}
    </div>
  `;
}

/** @param {{text: string}} props */
function Spans({ text }) {
  return spansOf(text).map(({ kind, text: words }, i) =>
    kind === "code"
      ? html`<code key=${i}><${Code} text=${words} /></code>`
      : kind === "strong"
        ? html`<b key=${i}>${plain(words, words.length)}</b>`
        : plain(words, words.length),
  );
}

/** Why a request can be denied, not allowed. @param {Asked} asked */
function limitOf({ session, request: { hold } }) {
  if (hold?.outdated)
    return {
      words: `The collector on ${plain(session.host)} is too old to check what you were shown, or it asked before ` +
        "this hub was upgraded. So this can be denied here, not allowed. Upgrade the collector there:",
      command: "adsum upgrade",
    };
  const words = "Not all of what is asked is shown here: it is too long, or a secret in it was masked. So it can be " +
    "denied here, not allowed.";
  return hold?.partial && { words };
}

/** The controls of a request, or why there are none. @param {Asked} asked */
function Deciding({ session, request }) {
  const asked = { session, request };
  const why = whyNot(session, request);
  const verbs = request.hold?.verbs ?? [];
  const shows = !why && !isDecided(asked) && verbs.includes("extend");
  useEffect(() => {
    if (!shows) return;
    const extend = () => document.visibilityState === "visible" && extendHold(session, request);
    extend();
    const timer = setInterval(extend, EXTEND_MS);
    return () => clearInterval(timer);
  }, [shows]);
  if (why && !(why.passing && request.hold && me.value?.role !== "viewer"))
    return html`<${Barred} why=${why} session=${session} />`;
  // What was typed stays while it can be taken back, or fails; and while the link is cut.
  const decided = isDecided(asked);
  if (decided && !givenOf(keyOf(session, request))) return html`<${Fate} ...${asked} />`;
  const limit = limitOf(asked);
  const ways = {
    plan: verbs.includes("plan") && html`<${PlanWays} ...${asked} />`,
    answer: verbs.includes("answer") && html`<${Answers} ...${asked} />`,
    elicit: verbs.includes("elicit") && html`<${Form} ...${asked} />`,
  };
  return html`
    ${why && html`<${Barred} why=${why} session=${session} />`}
    <${Fate} ...${asked} />
    ${limit && html`<${Barred} session=${session} why=${limit} />`}
    <${Extent} request=${request} />
    <fieldset class="controls" disabled=${Boolean(why)} hidden=${decided}>
      <legend class="sr">Decide</legend>
      <div class="decide">
        ${verbs.includes("allow") && html`
          <${Row} name="allow" line>
            <${Do} does="allow" words="Allow" icon="check" keys="a" look="do-main"
              grave=${isGrave(request) || request.hold?.unverified}
              onDo=${() => allow(asked)} />
            ${verbs.includes("always") && html`<${Always} ...${asked} />`}
          <//>
        `}
        ${ways.plan}
        ${ways.answer}
        ${ways.elicit}
        ${verbs.includes("deny") && html`<${Deny} ...${asked} />`}
        ${verbs.includes("defer") && html`
          <${Row} name="defer" line>
            <${Do} does="defer" words="Give back to the terminal" icon="terminal" look="do-quiet"
              onDo=${() => decide(session, request, { verb: "defer", words: "Give back to the terminal" })} />
          <//>
        `}
      </div>
      <${Same} ...${asked} />
    </fieldset>
  `;
}

/** @param {Asked} asked */
function Always({ session, request }) {
  const open = useSignal(false);
  const rules = request.hold?.always ?? [];
  const always = () =>
    decide(session, request, { verb: "always", words: `Always allow ${visible(rules.join(", "), 120)}` });
  if (!open.value)
    return html`<${Do} does="always-open" words="Always…" icon="shield-alert" onDo=${() => (open.value = true)} />`;
  return html`
    <div class="always">
      <p>From now on, in this session, this will be done <b>without asking</b>:</p>
      <ul>
        ${rules.map((rule) => html`<li key=${rule}><code><${Code} text=${rule.slice(0, 4000)} /></code></li>`)}
      </ul>
      <${Row} name="always" line>
        <${Do} does="always" words="Allow always" icon="check" look="do-main"
          grave=${isGrave(request) || request.hold?.unverified} onDo=${always} />
        <button type="button" class="button do do-quiet" onClick=${() => (open.value = false)}>Cancel</button>
      <//>
    </div>
  `;
}

/** @param {Asked} asked */
function Deny({ session, request }) {
  const text = useSignal("");
  const asked = { session, request };
  const plan = request.kind === "plan";
  const bare = request.hold?.verbs.includes("elicit") || request.kind === "dialog";
  const words = plan ? "Send back" : request.kind === "question" || bare ? "Decline" : "Deny";
  return html`
    <${Row} name="deny" line>
      ${!bare && html`
        <${Area} text=${text} label=${plan ? "What to change" : "Reason, for the agent"} reply />
      `}
      <${Do} does="deny" words=${words} icon="x" keys="d" onDo=${() => deny(asked, { text: text.value })} />
      ${request.kind === "permission" && html`
        <${Do} does="stop" words="Deny and stop" icon="hand"
          onDo=${() => deny(asked, { text: text.value, stop: true })} />
      `}
    <//>
  `;
}

/** @param {Asked} asked */
function PlanWays({ session, request }) {
  const mode = useSignal("default");
  const editing = useSignal(false);
  const written = String(record(request.payload).plan ?? "");
  const text = useSignal(written);
  const edited = editing.value && text.value !== written;
  /** @param {string} value @param {string} words */
  const choice = (value, words) => html`
    <label class="pick-one">
      <input
        type="radio"
        name=${`mode-${request.id}`}
        checked=${mode.value === value}
        onChange=${() => (mode.value = value)}
      />
      <span>${words}</span>
    </label>
  `;
  const approve = () =>
    decide(session, request, {
      ...{ verb: "plan", mode: mode.value, words: edited ? "Approve the plan as edited" : "Approve the plan" },
      ...(edited && { text: text.value }),
    });
  return html`
    ${editing.value && html`
      <${Area} text=${text} label="The plan, as it is to be carried out" rows=${12} most=${65_000} />
    `}
    <div class="picks-one" role="radiogroup" aria-label="After approval the agent">
      <p class="ask-note" aria-hidden="true">After approval the agent …</p>
      ${choice("default", "asks before each step that needs it")}
      ${choice("acceptEdits", "edits files without asking")}
    </div>
    <${Row} name="allow" line>
      <${Do} does="allow" words=${edited ? "Approve as edited" : "Approve"} icon="check" keys="a" look="do-main"
        grave=${Boolean(request.hold?.cautions)} onDo=${approve} />
      <button type="button" class="button do" onClick=${() => (editing.value = !editing.value)}>
        <${Icon} name="pen-line" />
        ${editing.value ? "As it was" : "Change it"}
      </button>
    <//>
  `;
}

/** The questions, each with its options, words of one's own and a note. @param {Asked} asked */
function Answers({ session, request }) {
  const told = record(request.payload).questions;
  const questions = (Array.isArray(told) ? told : []).map(record);
  const chosen = useSignal(/** @type {Record<string, string[]>} */ ({}));
  const own = useSignal(/** @type {Record<string, string>} */ ({}));
  const notes = useSignal(/** @type {Record<string, string>} */ ({}));
  const ends = questions.map((each) => {
    const name = String(each.question);
    const free = own.value[name]?.trim();
    return /** @type {const} */ ([name, [...(chosen.value[name] ?? []), ...(free ? [free] : [])]]);
  });
  const unanswered = ends.filter(([, answers]) => answers.length === 0);
  const said = Object.fromEntries(Object.entries(notes.value).filter(([, text]) => text.trim()));
  const current = unanswered[0]?.[0];
  const missing =
    questions.length === 1 ? "Choose an answer" : `${unanswered.length} of ${questions.length} not answered`;
  const send = () =>
    decide(session, request, {
      ...{ verb: "answer", words: "Answer", answers: Object.fromEntries(ends) },
      ...(Object.keys(said).length > 0 && { notes: said }),
    });
  return html`
    ${questions.map((each, at) => html`
      <${OneQuestion} key=${at} each=${each} at=${at} chosen=${chosen} own=${own} notes=${notes}
        numbered=${String(each.question) === current || questions.length === 1} />
    `)}
    <${Row} name="send" line>
      <${Do} does="send" words=${questions.length > 1 ? "Send the answers" : "Send the answer"} icon="check"
        look="do-main" missing=${unanswered.length > 0 ? missing : undefined} onDo=${send} />
    <//>
  `;
}

/**
 * @param {{each: Record<string, unknown>, at: number, numbered: boolean, chosen: Signal<Record<string, string[]>>,
 *   own: Signal<Record<string, string>>, notes: Signal<Record<string, string>>}} props
 */
function OneQuestion({ each, at, numbered, chosen, own, notes }) {
  const name = String(each.question);
  const several = each.multiSelect === true;
  const options = Array.isArray(each.options) ? each.options.map(record) : [];
  const mine = chosen.value[name] ?? [];
  /** @param {string} label */
  const pick = (label) => {
    const rest = mine.filter((other) => other !== label);
    const next = several ? (rest.length < mine.length ? rest : [...mine, label]) : [label];
    chosen.value = { ...chosen.peek(), [name]: next };
    if (!several) own.value = { ...own.peek(), [name]: "" };
  };
  /** @param {InputEvent} event */
  const write = (event) => {
    own.value = { ...own.peek(), [name]: /** @type {HTMLInputElement} */ (event.target).value };
    if (!several) chosen.value = { ...chosen.peek(), [name]: [] };
  };
  return html`
    <div class="asked" role="group" aria-labelledby=${`asked-${at}`}>
      <p class="asked-text" id=${`asked-${at}`} dir="auto">${plain(name, 4000)}</p>
      ${several && html`<p class="ask-note">several answers are possible</p>`}
      <div class="picks-one">
        ${options.map(({ label, description }, i) => html`
          <label key=${i} class="pick-one" data-option=${numbered && i < 9 ? i + 1 : undefined}>
            <input
              type=${several ? "checkbox" : "radio"}
              name=${`question-${at}`}
              checked=${mine.includes(String(label))}
              onChange=${() => pick(String(label))}
            />
            <span dir="auto">
              <b>${plain(label, 4000)}</b>
              ${typeof description === "string" && description && html`<small>${plain(description, 4000)}</small>`}
            </span>
            ${numbered && i < 9 && html`<kbd aria-hidden="true">${i + 1}</kbd>`}
          </label>
        `)}
      </div>
      <div class="do-line">
        <input class="area" maxlength="4000" data-reply="true" value=${own.value[name] ?? ""} onInput=${write}
          aria-label=${several ? "And in your own words" : "Or in your own words"}
          placeholder=${several ? "And in your own words" : "Or in your own words"} />
        <input class="area" maxlength="4000" value=${notes.value[name] ?? ""} aria-label="Note" placeholder="Note"
          onInput=${(/** @type {InputEvent} */ event) =>
            (notes.value = { ...notes.peek(), [name]: /** @type {HTMLInputElement} */ (event.target).value })} />
      </div>
    </div>
  `;
}

/** A server's form. @param {Asked} asked */
function Form({ session, request }) {
  const fields = fieldsOf(record(request.payload).requested_schema);
  const held = useSignal(/** @type {Record<string, string | boolean>} */ ({}));
  const { content, wrong } = contentOf(fields, held.value);
  return html`
    ${fields.map((field) => html`
      <${FormField} key=${field.name} field=${field} value=${held.value[field.name] ?? field.first}
        onChange=${(/** @type {string | boolean} */ value) => (held.value = { ...held.peek(), [field.name]: value })} />
    `)}
    <${Row} name="send" line>
      <${Do} does="send" words="Send the form" icon="check" look="do-main" missing=${content ? undefined : wrong}
        onDo=${() => content && decide(session, request, { verb: "elicit", words: "Fill in the form", content })} />
    <//>
  `;
}

/** @param {{field: Field, value: string | boolean, onChange: (value: string | boolean) => void}} props */
function FormField({ field, value, onChange }) {
  const { title, words, kind, choices, required } = field;
  /** @param {Event} event */
  const read = ({ target }) => {
    const box = /** @type {HTMLInputElement} */ (target);
    onChange(kind === "boolean" ? box.checked : box.value);
  };
  return html`
    <label class="form-field" data-kind=${kind}>
      <span>
        ${title}${required && html`<span aria-hidden="true"> *</span>`}
        ${words && html`<small>${words}</small>`}
      </span>
      ${choices ? html`
        <select class="area" required=${required} value=${value} onChange=${read}>
          <option value=""></option>
          ${choices.map(([each, said]) => html`<option key=${each} value=${each}>${said}</option>`)}
        </select>
      ` : kind === "boolean" ? html`
        <input type="checkbox" checked=${value} onChange=${read} />
      ` : html`
        <input
          class="area"
          required=${required}
          inputmode=${kind === "string" ? "text" : "decimal"}
          maxlength="4000"
          value=${value}
          onInput=${read}
        />
      `}
    </label>
  `;
}

/** The very same, asked in other sessions. @param {Asked} asked */
function Same({ session, request }) {
  void hubNow.value;
  const left = useSignal(/** @type {string[]} */ ([]));
  const others = sameAsked(session, request);
  if (others.length === 0) return null;
  const all = [{ session, request }, ...others];
  const wanted = all.filter((each) => !left.value.includes(keyOf(each.session, each.request)));
  const those = wanted.length === 1 ? "this session" : `these ${wanted.length} sessions`;
  /** @param {string} name @param {boolean} kept */
  const turn = (name, kept) => {
    left.value = kept ? [...left.value, name] : left.value.filter((each) => each !== name);
  };
  return html`
    <div class="same" role="group" aria-label="The same elsewhere">
      <p>The very same is asked in ${others.length} other ${others.length === 1 ? "session" : "sessions"}:</p>
      ${all.map(({ session: one, request: its }) => {
        const name = keyOf(one, its);
        const kept = !left.value.includes(name);
        return html`
          <label key=${name} class="pick-one">
            <input type="checkbox" checked=${kept} onChange=${() => turn(name, kept)} />
            <span>
              <b><bdi>${titleOf(one)}</bdi></b>
              <small>
                on ${plain(one.host)}, in <${Code} text=${its.hold?.cwd || one.cwd || "?"} />
                ${cautionsOf(its).map((words) => html`<span key=${words} class="caution">${words}</span>`)}
              </small>
            </span>
          </label>
        `;
      })}
      <${Row} name=${`same ${keyOf(session, request)}`}>
        ${wanted.length > 0 && html`
          <${Do} does="same" grave words=${`Allow in ${those}`} icon="check" onDo=${() => wanted.forEach(allow)} />
        `}
      <//>
    </div>
  `;
}
