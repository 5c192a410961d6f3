"""Lists this machine's rules of control, and tries them on what its sessions did: `adsum control rules`."""

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum.text.saying import put, put_json, say
from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent, PastCall, PastDecision
from adsum_collector.control.policy import Matter, Policy, PolicyRule, policy_file, read_policy
from adsum_collector.settings import CollectorSettings
from adsum_shared.redact import clean, redact_text
from adsum_shared.settings import ConfigError

SCHEMA = 1
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
        _tell(rule, trial.found[rule.name])


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


def _tell(rule: PolicyRule, found: Tried) -> None:
    state = "tried" if rule.dry_run else "decides"
    put(f"{rule.name} ({state}): would {rule.decision} {found.calls}, asked {found.asked}")
    if found.against:
        said = "denied" if rule.decision == "allow" else "allowed"
        put(f"  {found.against} of them a person has {said}: look at this rule again")
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
