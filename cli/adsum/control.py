"""`adsum control` says, on this machine alone, what people elsewhere may decide here, and tries its rules."""

from __future__ import annotations

import csv
import io
import os
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from adsum.access import LOOPBACK, seconds
from adsum.client import fetch, hub_url, require_id, running_here
from adsum.config import read_settings
from adsum.hooks import Setup, setups_for
from adsum.machine import membership
from adsum.outcome import CommandError, Exit, put, put_json, require, say
from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent, PastCall, PastDecision
from adsum_collector.control.consent import (
    Checked,
    Consent,
    Line,
    check_trail,
    keep_consent,
    read_consent,
    read_trail,
)
from adsum_collector.control.policy import (
    Matter,
    Policy,
    PolicyRule,
    launches,
    policy_file,
    read_policy,
)
from adsum_collector.listening.sockets import stranger_on
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import make_private
from adsum_shared.redact import clean, redact_text
from adsum_shared.settings import ConfigError
from adsum_shared.state import Control

SCHEMA = 1
MEANS: dict[Control, str] = {
    "off": "Nothing of this machine is decided from elsewhere.",
    "approve": "Operators and admins of its hubs may answer what sessions here ask: allow, deny, "
    "answer questions, approve plans. Nothing else.",
    "full": "Operators and admins of its hubs may answer what sessions here ask, and prompt, queue, "
    "interrupt, suspend and resume them: whoever may prompt may run any command as you.",
}
TOO_PRIVATE = (
    "With privacy = metadata, nothing of what a session asks leaves this machine, so nobody elsewhere "
    "could know what they decide. Control stays off; to have it, set privacy to redacted or full."
)


NO_PROGRAM = (
    "{} is in no usual place, and which hooks it understands depends on its version. Name it: "
    "--program PATH"
)
NO_HUB = (
    "Nothing has changed. No hub runs with this state directory, and this machine has joined none, so any "
    "account of this machine could listen on {} and have its key trusted. Start the hub (adsum up), join "
    "one (adsum join URL), or name its address in ADSUM_HUB_URL."
)
OTHERS_HUB = (
    "Nothing has changed. The program that listens on {} belongs to {}, not to you or root, so its keys are not "
    "trusted. If you trust that hub, join it: adsum join URL. If not, end that program."
)


def parse_level(text: str) -> Control:
    """Raises CommandError."""
    match text:
        case "off" | "approve" | "full":
            return text
        case _:
            raise CommandError(f"Control is approve, full or off, not {text[:40]!r}.", Exit.USAGE)


@dataclass(frozen=True, slots=True)
class Asking:
    """program: the agent's, if it is not on PATH. until: for how long, such as 8h."""

    state_dir: Path | None
    until: str | None = None
    program: Path | None = None
    yes: bool = False
    dry_run: bool = False


def change(level: Control, asking: Asking) -> None:
    """Shows what it would change, and changes it once that is agreed to."""
    settings = read_settings(CollectorSettings, state_dir=asking.state_dir)
    home, dry_run, until = settings.state_dir, asking.dry_run, asking.until
    if level == "off":
        _end(home, asking)
        return
    require_shown(settings)
    setups = _installed(home, asking.program)
    now = time.time()
    end = None if until is None else now + seconds(until)
    keys = _usable(_keys_of(settings))
    _tell(level, keys, end)
    for setup in setups:
        _ = setup.install(dry_run=True)  # raises for settings that cannot be edited
    if dry_run:
        say("Nothing has changed.")
        return
    _require_yes(home, keys, f"adsum control {level}", yes=asking.yes)
    make_private(home)
    keep_consent(home, Consent(level, now, end, keys))
    _set_hooks(setups, dry_run=False)
    if not setups and not _notes():  # those that are heard otherwise need none
        say("No hooks of Adsum wait here yet: adsum hooks install")
    say(f"Control is {level}{_until(end)}. To end it: adsum control off")


def _end(home: Path, asking: Asking) -> None:
    """Raises CommandError, with PARTIAL where hooks stay as they are though control is off."""
    if (
        not asking.dry_run
    ):  # first of all: what waits is handed back, whatever stands in the way below
        make_private(home)
        keep_consent(home, Consent())
    say(f"Control {'would be' if asking.dry_run else 'is'} off. {MEANS['off']}")
    waiting = [each for each in setups_for("user", home, asking.program) if each.inspect().held]
    _set_hooks([each for each in waiting if each.known_version], dry_run=asking.dry_run)
    for setup in waiting:
        if setup.known_version is None:
            left = f"Hooks in {setup.path} are still those that wait: "
            raise CommandError(left + NO_PROGRAM.format(setup.agent.title), Exit.PARTIAL)


def require_shown(settings: CollectorSettings) -> None:
    """Raises CommandError."""
    require(settings.privacy != "metadata", TOO_PRIVATE)


def switch_on(home: Path, level: Control, keys: Any, *, yes: bool) -> None:
    """At joining: hooks are installed afterwards. Raises CommandError."""
    found = _usable(keys)
    _tell(level, found, None)
    step = f"adsum join without --control, then adsum control {level}"
    _require_yes(home, found, step, yes=yes)
    keep_consent(home, Consent(level, time.time(), None, found))


def _tell(level: Control, keys: dict[str, str], end: float | None) -> None:
    """What it means, before anybody agrees."""
    say(f"{MEANS[level]}{f' It ends {_clock(end)}.' if end else ''}")
    say(f"Signed by these hubs' keys, and by no other: {', '.join(sorted(keys))}")
    say("Compare them with what a hub tells those who sign in: GET /api/v1/command-keys")
    for note in _notes():
        say(note)


def _notes() -> list[str]:
    """What is to be said of the agents that are on this machine."""
    home = Path.home()
    return [
        agent.control_note
        for agent in known_agents()
        if agent.control_note and any(each.is_dir() for each in agent.directories(os.environ, home))
    ]


def _require_yes(home: Path, keys: dict[str, str], step: str, *, yes: bool) -> None:
    """Require --yes or a typed yes. step: what a person at a terminal does next. Raises CommandError.

    A first key may be trusted by --yes. A changed or a second one may be an attacker's, so a person
    compares it with what the hub shows.
    """
    pinned = read_consent(home).keys
    new = sorted(name for name, key in keys.items() if pinned.get(name) != key)
    if new and (pinned or len(keys) > 1):
        yes = False
        say(f"Not trusted here yet: {', '.join(new)}")
        if not sys.stdin.isatty():
            raise CommandError(
                "Nothing has changed: a changed or second key takes a person at a terminal, and --yes does "
                f"not count. Next, at a terminal of this machine: {step}"
            )
    if not yes and sys.stdin.isatty():
        say("Let them? Type yes:")
        yes = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not yes:
        raise CommandError("Nothing has changed: it takes a yes, or --yes.")


def _installed(home: Path, program: Path | None) -> list[Setup]:
    """Where hooks of ours stand that can wait. Raises CommandError: they are not ours to change."""
    found = []
    for setup in setups_for("user", home, program):
        report = setup.inspect()
        plugin = setup.installer.plugin(setup.installer.files(Path.home(), Path.cwd()))
        if plugin is not None and not report.counts:
            raise CommandError(
                f"The hooks come from the plugin {plugin.id}, and those cannot wait for decisions. "
                f"Next: {plugin.removal} && {setup.command}"
            )
        if not report.held and not report.holdable(setup.version):
            if setup.known_version is None and report.counts and setup.is_default:
                raise CommandError(NO_PROGRAM.format(setup.agent.title))
        elif setup.known_version is None:
            raise CommandError(NO_PROGRAM.format(setup.agent.title))
        else:
            found.append(setup)
    return found


def _set_hooks(setups: Sequence[Setup], *, dry_run: bool) -> None:
    for setup in setups:
        done = setup.install(dry_run=dry_run)
        if done.needed:
            would = "would change" if dry_run else "changed; sessions take it up within seconds"
            say(f"hooks      {setup.path}: {would}")


def _keys_of(settings: CollectorSettings) -> Any:
    """Return the hub's answer. Redis is not asked: an attacker may have written a key there. Raises CommandError."""
    joined = None if settings.redis_url else membership(settings.state_dir)
    if joined is not None:
        return joined.open_hub().ask("/api/v1/machine").get("command_keys")
    named, home = os.environ.get("ADSUM_HUB_URL"), settings.state_dir
    hub = hub_url(named, home)
    require(named or running_here(home) or membership(home), NO_HUB.format(hub))
    parts = urlsplit(hub)
    # Before the request, which has this machine's token.
    if parts.hostname in LOOPBACK and parts.port and (other := stranger_on(parts.port)):
        raise CommandError(OTHERS_HUB.format(hub, clean(other)))
    return fetch(hub, "/api/v1/command-keys")["keys"]


def _usable(keys: Any) -> dict[str, str]:
    """Raises CommandError."""
    if not isinstance(keys, dict) or not Consent(keys=keys).public_keys():
        raise CommandError(
            "The hub names no key by which it signs commands. It has no sign-in, is older, or has no key yet. "
            "Upgrade it, and start it anew without ADSUM_SIGN_IN=off."
        )
    return {str(name): str(key) for name, key in keys.items()}


def show(state_dir: Path | None, *, as_json: bool) -> None:
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    consent, trail = read_consent(settings.state_dir), check_trail(read_trail(settings.state_dir))
    level: Control = "off" if settings.privacy == "metadata" else consent.at(time.time())
    waiting = {str(each.path): sorted(each.inspect().held) for each in _hooked(settings.state_dir)}
    if as_json:
        put_json(
            {
                "schema": SCHEMA,
                "control": level,
                "until": None if consent.until is None else int(consent.until * 1000),
                "keys": sorted(consent.public_keys()),
                "hooks": waiting,
                "privacy": settings.privacy,
                "trail": {"lines": trail.lines, "last": trail.last, "fault": trail.fault},
            }
        )
        return
    end = _until(consent.until) if level != "off" else ""
    put(f"control    {level}{end}")
    put(f"means      {MEANS[level]}")
    if level != "off":
        put(f"keys       {', '.join(sorted(consent.public_keys()))}")
    for path, events in waiting.items():
        put(f"hooks      {path}: {', '.join(events) or 'none waits'}")
    whole = f"{trail.lines} lines, {trail.fault or 'whole'}; the last is {trail.last[:16]}"
    put(f"trail      {whole if trail.lines or trail.fault else 'empty'}")


def _hooked(home: Path) -> list[Setup]:
    return [each for each in setups_for("user", home) if each.inspect().counts]


@dataclass(frozen=True, slots=True)
class TrailWanted:
    """since: for how long back, such as 7d. session: the start of its id. form: text, json or csv.

    Raises CommandError.
    """

    since: str | None = None
    session: str | None = None
    form: str = "text"
    verify: bool = False

    def __post_init__(self) -> None:
        if self.session is not None:
            require_id(self.session)


def show_trail(state_dir: Path | None, wanted: TrailWanted) -> None:
    """Raises CommandError, with ERROR, for a chain that is broken."""
    home = read_settings(CollectorSettings, state_dir=state_dir).state_dir
    if wanted.verify:
        checked = check_trail(read_trail(home))
        if wanted.form == "json":
            put_json(checked._asdict())
        else:
            put(_verdict(checked))
        if checked.fault:
            raise CommandError(f"The trail was changed: {checked.fault}.")
        return
    if wanted.form == "csv":
        put(_csv(Line.__struct_fields__))
    empty = wanted.form == "text"
    for text, line in _wanted_lines(home, wanted):
        empty = False
        if wanted.form == "csv" and line is not None:
            put(_csv([getattr(line, name) for name in Line.__struct_fields__]))
        elif wanted.form == "json":
            put(text)
        elif wanted.form == "text":
            put(clean(_told(line, text)))
    if empty:
        chosen = wanted.since or wanted.session
        say("No line matches." if chosen else "Nothing has been decided from elsewhere yet.")


def _wanted_lines(home: Path, wanted: TrailWanted) -> Iterator[tuple[str, Line | None]]:
    """None: of what is no line of the trail."""
    since = 0.0 if wanted.since is None else (time.time() - seconds(wanted.since)) * 1000
    for raw in read_trail(home):
        text = raw.decode(errors="replace").rstrip("\n")
        try:
            line = msgspec.json.decode(text, type=Line)
        except msgspec.DecodeError:
            if not since and not wanted.session:
                yield text, None
            continue
        if line.at >= since and line.session_id.startswith(wanted.session or ""):
            yield text, line


def _csv(cells: Sequence[object]) -> str:
    """A row. What a spreadsheet would take for a formula is text to it."""
    text = io.StringIO()
    plain = [clean(str(each)) for each in cells]
    csv.writer(text, lineterminator="").writerow(
        f"'{each}" if each.startswith(("=", "+", "-", "@")) else each for each in plain
    )
    return text.getvalue()


def _verdict(checked: Checked) -> str:
    gone = f" {checked.dropped} older ones were dropped for room." if checked.dropped else ""
    return f"{checked.lines} lines, {checked.fault or 'whole'}.{gone} The last hash: {checked.last}"


def _told(line: Line | None, text: str) -> str:
    if line is None:
        return f"(no line of the trail: {text[:60]})"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line.at / 1000))
    words = (line.what, line.verb, line.outcome, line.by and f"by {line.by}", line.about)
    return f"{when}  {line.session_id[:8]}  {'  '.join(word for word in words if word)}"


def _until(end: float | None) -> str:
    return f" until {_clock(end)}" if end else ""


def _clock(end: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(end))


DAY_S: Final = 86_400
MOST_EXAMPLES: Final = 3
MOST_SHOWN: Final = 100
#: Of a line: what is longer holds a picture or a file, and its call is passed over.
MOST_LINE: Final = 4 << 20
NONE = (
    "No rule: a person decides everything. Write [[control.rule]] into {}: docs/control.md, Rules."
)


@dataclass(slots=True)
class Tried:
    """What a rule would have decided. asked: of these a person was; against: who said the opposite."""

    calls: int = 0
    asked: int = 0
    against: int = 0
    examples: list[str] = field(default_factory=list)


def _policy() -> tuple[Path, Policy]:
    """Raises CommandError."""
    file = policy_file()
    try:
        return file, read_policy(file)
    except ConfigError as error:
        raise CommandError(f"{error} Until then no rule counts, and nothing is allowed.") from error


def show_rules(*, as_json: bool) -> None:
    """Raises CommandError."""
    file, policy = _policy()
    if as_json:
        put_json({"schema": SCHEMA, "file": str(file), **msgspec.to_builtins(policy)})
        return
    if not policy.rules:
        say(NONE.format(file))
    for rule in policy.rules:
        state = "tried" if rule.dry_run else "decides"
        put(f"{rule.name:<20} {state:<8} {rule.decision:<6} {clean(_conditions(rule))}".rstrip())
    for tag in policy.tags:
        where = ", ".join(tag.directories) or "all of this machine"
        two = "; two persons" if tag.name in policy.two_persons else ""
        put(f"tag {tag.name}: {clean(where)}{two}")


def _conditions(rule: PolicyRule) -> str:
    told = {
        name: getattr(rule, name) for name in ("tool", "pattern", "directory", "tag", "between")
    }
    return "  ".join(f"{name}={value}" for name, value in told.items() if value)


def try_rules(state_dir: Path | None, days: int, *, as_json: bool) -> None:
    """Against the calls that this machine's transcripts tell of. Nothing changes.

    Raises CommandError.
    """
    file, policy = _policy()
    if not policy.rules:
        raise CommandError(NONE.format(file), Exit.USAGE)
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    live = msgspec.structs.replace(
        policy, rules=tuple(msgspec.structs.replace(each, dry_run=False) for each in policy.rules)
    )
    trial = Trial(live)
    for each in _past(settings, time.time() - days * DAY_S):
        if isinstance(each, PastCall):
            trial.take(each)
        else:
            trial.decide(each)
    if as_json:
        rules = {name: msgspec.to_builtins(each) for name, each in trial.found.items()}
        counts = {"days": days, "calls": trial.calls, "asked": trial.asked}
        put_json({"schema": SCHEMA, **counts, "rules": rules})
        return
    put(f"{trial.calls} calls of tools in {days} days; a person was asked about {trial.asked}.")
    for rule in policy.rules:
        _tell_rule(rule, trial.found[rule.name])


class Trial:
    """Rules held against calls, as if each of them decided."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._salt = policy, secrets.token_hex(8)
        self.found = {rule.name: Tried() for rule in policy.rules}
        self.calls = self.asked = 0
        #: calls that a rule would have decided, by id
        self._by: dict[str, PolicyRule] = {}

    def take(self, call: PastCall) -> None:
        clock = time.localtime(call.at / 1000)
        rule = self._policy.judge(Matter(call.asked, clock.tm_hour * 60 + clock.tm_min)).rule
        self.calls += 1
        if rule is None:
            return
        self._by[call.id] = rule
        found = self.found[rule.name]
        found.calls += 1
        if len(found.examples) < MOST_EXAMPLES:
            text = redact_text(call.asked.subject or call.asked.tool, self._salt)
            found.examples.append(clean(text)[:MOST_SHOWN])

    def decide(self, decision: PastDecision) -> None:
        """What a person said to a call that came before."""
        self.asked += 1
        rule = self._by.pop(decision.id, None)
        if rule is not None:
            found = self.found[rule.name]
            found.asked += 1
            found.against += decision.accepted != (rule.decision == "allow")


def _tell_rule(rule: PolicyRule, found: Tried) -> None:
    state = "tried" if rule.dry_run else "decides"
    put(f"{rule.name} ({state}): would {rule.decision} {found.calls}, asked {found.asked}")
    if found.against:
        said = "denied" if rule.decision == "allow" else "allowed"
        put(f"  {found.against} of them a person has {said}: look at this rule again")
    if program := launches(rule):
        put(f"  warning: `{program}` can run other programs or write files by its arguments")
    for each in found.examples:
        put(f"  {each}")


def _past(settings: CollectorSettings, since: float) -> Iterator[PastCall | PastDecision]:
    """since: s of wall clock. What cannot be read is passed over: this decides nothing."""
    for agent in known_agents():
        for path in _files(agent, settings, since):
            try:
                with path.open("rb") as file:
                    for line in file:
                        if len(line) <= MOST_LINE:
                            yield from _recent(agent, line, since)
            except OSError as error:
                say(f"{clean(str(path))} cannot be read: {error.strerror}")


def _recent(agent: Agent, line: bytes, since: float) -> Iterator[PastCall | PastDecision]:
    for each in agent.past(line):
        if isinstance(each, PastDecision) or each.at >= since * 1000:
            yield each


def _files(agent: Agent, settings: CollectorSettings, since: float) -> Iterator[Path]:
    roots = agent.transcript_dirs(settings.directories_of(agent), os.environ, Path.home())
    for root in roots:
        for path in sorted(root.rglob("*.jsonl")):
            try:
                if path.is_file() and path.stat().st_mtime >= since:
                    yield path
            except OSError:
                continue
