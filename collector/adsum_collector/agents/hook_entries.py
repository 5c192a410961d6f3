"""Hooks as agents keep them in JSON: `{"hooks": {EVENT: [{"matcher": …, "hooks": [HOOK, …]}, …]}}`. Pure.

Ours are put in as groups of their own, behind the user's, and taken out so that all else stays.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from adsum_collector.agents import json_text
from adsum_collector.agents.installer import SHIM_NAME

IsOurs = Callable[[object], bool]


class ShapeError(ValueError):
    """Valid JSON, but not what the agent reads as hooks."""


def parse_settings(text: str) -> dict[str, Any]:
    """The settings in the shape we edit. Raises JsonTextError or ShapeError."""
    if json_text.is_blank(text):
        return {}
    settings = json_text.parse(text)
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    shaped = isinstance(hooks, dict) and all(isinstance(value, list) for value in hooks.values())
    if not shaped:
        raise ShapeError('not an object whose "hooks" is an object of arrays')
    if doubled := _doubled_key(text, settings):
        raise ShapeError(f'the key "{doubled}" stands twice, and only the last one is read')
    return dict(settings)


def _doubled_key(text: str, settings: dict[str, Any]) -> str | None:
    for path in ((), ("hooks",)) if "hooks" in settings else ((),):
        seen: set[str | None] = set()
        for member in json_text.children(text, json_text.find(text, *path)):
            if member.key in seen:
                return member.key
            seen.add(member.key)
    return None


def hooks_in(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(event, hook) for event, _, _, hook in placed_hooks(settings)]


def placed_hooks(settings: Mapping[str, Any]) -> list[tuple[str, int, int, Any]]:
    """(event, which of its groups, which of that one's hooks, the hook)."""
    return [
        (event, at, index, hook)
        for event, groups in (settings.get("hooks") or {}).items()
        for at, group in enumerate(groups)
        for index, hook in enumerate(_group_hooks(group))
    ]


def _group_hooks(group: object) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def with_groups(text: str, groups: Mapping[str, dict[str, Any]]) -> str:
    """The text with one more group for each of these events."""
    settings = json_text.parse(text)
    events = settings.get("hooks") or {}
    if "hooks" not in settings:
        text = json_text.append(text, json_text.root(text), {}, "hooks")
    for event, group in groups.items():
        if event in events:
            text = json_text.append(text, json_text.find(text, "hooks", event), group)
        else:
            text = json_text.append(text, json_text.find(text, "hooks"), [group], event)
    return text


def without_hooks(text: str, is_ours: IsOurs) -> str:
    """The text without our hooks, and without the brackets that held nothing else."""
    places = placed_hooks({} if json_text.is_blank(text) else json_text.parse(text))
    ours = [(event, at, index) for event, at, index, hook in places if is_ours(hook)]
    for event, at, index in reversed(ours):
        text = json_text.drop(text, *_emptied(text, ("hooks", event, at, "hooks", index)))
    return text


def _emptied(text: str, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Of one of our hooks, what would hold nothing without it: its group, matcher and all, or more."""
    if not _is_alone(text, path):
        return path
    path = path[:3]
    while len(path) > 1 and _is_alone(text, path):
        path = path[:-1]
    return path


def _is_alone(text: str, path: Sequence[str | int]) -> bool:
    return len(json_text.children(text, json_text.find(text, *path[:-1]))) == 1


def command_words(hook: Mapping[str, Any]) -> list[str]:
    """What a command hook runs. Without `args` a shell takes the words apart; ours are quoted for one."""
    command, args = hook.get("command"), hook.get("args")
    if not isinstance(command, str):
        return []
    if isinstance(args, list):
        return [command, *map(str, args)]
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return [command]


def runs_shim(hook: object) -> bool:
    """True for a command that some install of ours wrote, with whichever Python and socket."""
    words = command_words(hook) if isinstance(hook, dict) else []
    return any(SHIM_NAME in word.replace("\\", "/") for word in words)


def sockets_in(settings: Mapping[str, Any]) -> frozenset[str]:
    """Where the commands among our hooks hand on to; one with a dash finds it by itself."""
    ours = [command_words(hook) for _, hook in hooks_in(settings) if runs_shim(hook)]
    sockets = (word for words in ours for shim, word in pairwise(words) if SHIM_NAME in shim)
    return frozenset(sockets) - {"-"}
