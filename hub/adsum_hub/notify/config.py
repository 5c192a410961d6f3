"""Reading `[[notify]]` and `[[channel]]`: errors name the entry, the cause, the next step. Pure."""

from __future__ import annotations

import json
import re
from datetime import time
from fnmatch import fnmatchcase
from typing import Any, get_args
from zoneinfo import ZoneInfo

import msgspec

from adsum_hub.notify.rules import PUSH, Channel, Config, Content, On, Quiet, Rule
from adsum_shared.errors import AdsumError
from adsum_shared.state import GROUP_OF

MOST = 50
DAY_S = 24 * 3600
#: Without a word about it: a need that is met at the desk is not told; a machine may be restarted.
AFTER_S: dict[On, int] = {"needs_you": 60, "delivered": 1, "host_offline": 300}
#: A session that was closed or put away delivers nothing new.
STATES: dict[On, tuple[str, ...]] = {"delivered": ("task_complete",)}
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,39}")
#: What a pattern may look like if an error is to show it.
_PATTERN = re.compile(r"[\w*?!\[\]-]{1,40}", re.ASCII)
#: Fields of which few values are known.
_CHOICES = {"on": get_args(On), "content": get_args(Content)}
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class NotifyConfigError(AdsumError):
    """An entry cannot be used. The text holds nothing of a URL: any part of it may be a secret."""

    def __init__(self, kind: str, number: int, name: str, cause: str, step: str) -> None:
        called = f" ({name})" if name else ""
        where = f"[[{kind}]] {number}{called}" if number else f"[[{kind}]]"
        super().__init__(f"{where}: {cause}. {step}")


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _QuietEntry(_Entry, rename={"from_": "from"}):
    from_: str
    to: str
    zone: str


class _NotifyEntry(_Entry):
    channels: list[str]
    on: On = "needs_you"
    state: str | list[str] = []
    host: str | list[str] = []
    project: str | list[str] = []
    after: int | None = None
    digest: int = 0
    quiet: _QuietEntry | None = None


class _ChannelEntry(_Entry):
    name: str
    url: str | None = None
    content: Content = "none"


def read_config(notify: Any, channel: Any) -> Config:
    """Both as TOML has them, or as JSON text. Without any rule: all channels, after a minute."""
    channels = [_channel(number, raw) for number, raw in enumerate(_entries("channel", channel), 1)]
    names = [each.name for each in channels]
    for number, name in enumerate(names, 1):
        if name in names[: number - 1]:
            step = "Give each channel a name of its own."
            raise NotifyConfigError("channel", number, name, "the name is taken", step)
    if PUSH not in names:
        channels.insert(0, Channel(PUSH))
    known = tuple(each.name for each in channels)
    rules = [_rule(n, raw, known) for n, raw in enumerate(_entries("notify", notify), 1)]
    default = Rule("needs_you", known, AFTER_S["needs_you"] * 1000)
    return Config(tuple(rules or [default]), tuple(channels))


def _entries(kind: str, given: Any) -> list[Any]:
    if isinstance(given, str) and given:
        try:
            given = json.loads(given)
        except ValueError:
            step = f"Write ADSUM_{kind.upper()} as a JSON list, or the entries into config.toml."
            raise NotifyConfigError(kind, 0, "", "it is no JSON", step) from None
    entries = given or []
    if not isinstance(entries, list | tuple):
        step = f"Begin every entry with a line [[{kind}]]."
        raise NotifyConfigError(kind, 0, "", "it is not a list of entries", step)
    if len(entries) > MOST:
        raise NotifyConfigError(
            kind, MOST + 1, "", f"there are more than {MOST}", "Join some of them by patterns."
        )
    return list(entries)


def _read(kind: str, number: int, name: str, raw: Any, of: type[Any]) -> Any:
    try:
        return msgspec.convert(raw, of)
    except msgspec.ValidationError as error:
        # The library quotes what it found where it expects a choice: a URL may stand there by mistake.
        cause = re.sub(r"Invalid enum value '.*'", "no value that is known", str(error))
        cause = cause.replace("`$.", "`").replace(" - at `$`", "")
        fields = ", ".join(f"`{field}`" for field in of.__struct_fields__)
        step = f"Correct it; an entry has {fields}."
        for field, choices in _CHOICES.items():
            if cause.endswith(f"at `{field}`"):
                step = f"Write one of {', '.join(choices)}."
        raise NotifyConfigError(kind, number, name, cause, step) from None


def _channel(number: int, raw: Any) -> Channel:
    name = _plain(raw.get("name")) if isinstance(raw, dict) else ""
    entry = _read("channel", number, name, raw, _ChannelEntry)
    if not _NAME.fullmatch(entry.name):
        step = "Use up to 40 letters, digits and . _ -"
        raise NotifyConfigError("channel", number, "", "`name` is no plain word", step)
    if entry.name == PUSH:
        if entry.url is not None:
            step = "Leave it out, or choose another name: `push` is the browsers' own."
            raise NotifyConfigError("channel", number, name, "`push` has no `url`", step)
    elif not entry.url or not re.match(r"[A-Za-z][\w+.-]*://\S", entry.url):
        step = "Give it the apprise URL of a service, which looks like ntfy://host/topic."
        cause = "`url` is no apprise URL" if entry.url else "`url` is missing"
        raise NotifyConfigError("channel", number, name, cause, step)
    return Channel(entry.name, entry.content, entry.url)


def _rule(number: int, raw: Any, known: tuple[str, ...]) -> Rule:
    entry = _read("notify", number, "", raw, _NotifyEntry)
    strange = [name for name in entry.channels if name not in known]
    if strange or not entry.channels:
        cause = f"there is no channel {_plain(strange[0])!r}" if strange else "`channels` is empty"
        step = f"Name one of {', '.join(known)}, or add a [[channel]]."
        raise NotifyConfigError("notify", number, "", cause, step)
    after = AFTER_S[entry.on] if entry.after is None else entry.after
    for name, seconds in (("after", after), ("digest", entry.digest)):
        if not 0 <= seconds <= DAY_S:
            step = "Give seconds, from 0 to 86400."
            raise NotifyConfigError("notify", number, "", f"`{name}` is {seconds}", step)
    if entry.on == "host_offline" and (entry.state or entry.project):
        step = "Leave them out, or write a rule of its own."
        cause = "a machine has no `state` and no `project`"
        raise NotifyConfigError("notify", number, "", cause, step)
    return Rule(
        on=entry.on,
        channels=tuple(dict.fromkeys(entry.channels)),
        after_ms=after * 1000,
        states=_states(number, entry) or STATES.get(entry.on, ()),
        hosts=_patterns(entry.host),
        projects=_patterns(entry.project),
        digest_ms=entry.digest * 1000,
        quiet=_quiet(number, entry.quiet),
    )


def _states(number: int, entry: _NotifyEntry) -> tuple[str, ...]:
    """States are an open set, but whoever resolves them is this very hub: it knows all it makes."""
    patterns = _patterns(entry.state)
    known = [state for state, group in GROUP_OF.items() if group == entry.on]
    for pattern in patterns:
        if not any(fnmatchcase(state, pattern.casefold()) for state in known):
            shown = f" {pattern!r}" if _PATTERN.fullmatch(pattern) else ""
            cause = f"`state`{shown} fits no state of `{entry.on}`, so nobody would ever be told"
            step = f"Name one of {', '.join(known)}; a pattern may stand for several."
            raise NotifyConfigError("notify", number, "", cause, step)
    return patterns


def _plain(name: Any) -> str:
    """For an error: what is no plain word may be a URL that came into the wrong place."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _patterns(given: str | list[str]) -> tuple[str, ...]:
    return tuple([given] if isinstance(given, str) else given)


def _quiet(number: int, entry: _QuietEntry | None) -> Quiet | None:
    if entry is None:
        return None
    for text in (entry.from_, entry.to):
        if not _TIME.fullmatch(text):
            step = 'Write it as "22:00".'
            cause = f"{text[:20]!r} is no time of day"
            raise NotifyConfigError("notify", number, "quiet", cause, step)
    if entry.from_ == entry.to:
        step = "Give them an end, or remove the rule."
        raise NotifyConfigError("notify", number, "quiet", "`from` and `to` are the same", step)
    try:
        zone = ZoneInfo(entry.zone)
    except (ValueError, OSError, LookupError):
        step = 'Name one such as "Europe/Berlin" or "UTC".'
        cause = f"there is no zone {entry.zone[:40]!r} on this machine"
        raise NotifyConfigError("notify", number, "quiet", cause, step) from None
    return Quiet(time.fromisoformat(entry.from_), time.fromisoformat(entry.to), zone)
