"""Our hooks in the text of a settings file: added beside the user's own, and taken out. Pure."""

from __future__ import annotations

import re
from typing import Any

from adsum_collector.hooks import json_text
from adsum_collector.hooks.events import (
    SHIM_NAME,
    Target,
    Version,
    command_words,
    entry_for,
    events_for,
    is_our_url,
    is_ours,
)
from adsum_collector.hooks.json_text import Child

ALLOWED_URLS = "allowedHttpHookUrls"


class ShapeError(ValueError):
    """Valid JSON, but not what Claude Code reads as settings."""


def parse_settings(text: str) -> dict[str, Any]:
    """The settings in the shape we edit. Raises JsonTextError or ShapeError."""
    if json_text.is_blank(text):
        return {}
    settings = json_text.parse(text)
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    shaped = isinstance(hooks, dict) and all(isinstance(value, list) for value in hooks.values())
    if not shaped:
        raise ShapeError('not an object whose "hooks" is an object of arrays')
    doubled = _doubled_key(text, settings)
    if doubled:
        raise ShapeError(f'the key "{doubled}" stands twice, and Claude Code reads only the last')
    return dict(settings)


def added(base: str | None, target: Target, version: Version) -> str:
    """The text with our hooks in it. None or blank: a file of our own."""
    text = "{}\n" if base is None or json_text.is_blank(base) else base
    settings = json_text.parse(text)
    root = json_text.root(text)
    allowed = settings.get(ALLOWED_URLS)
    posts = target.transport == "http"
    if posts and isinstance(allowed, list) and not permits(allowed, target.url):
        text = json_text.append(text, _member(text, root, ALLOWED_URLS).value_at, target.url)
    if "hooks" not in settings:
        text = json_text.append(text, root, {}, "hooks")
    for event in events_for(version, users_own(settings)):
        group = entry_for(event, target, version)
        hooks_at = _member(text, root, "hooks").value_at
        if event in (settings.get("hooks") or {}):
            text = json_text.append(text, _member(text, hooks_at, event).value_at, group)
        else:
            text = json_text.append(text, hooks_at, [group], event)
    return text


def stripped(text: str) -> str:
    """The text without our hooks, and without the brackets that held nothing else."""
    if json_text.is_blank(text):
        return text
    while (shorter := _without_first(text)) is not None:
        text = shorter
    return text


def _doubled_key(text: str, settings: dict[str, Any]) -> str | None:
    root = json_text.root(text)
    places = [json_text.children(text, root)]
    if "hooks" in settings:
        places.append(json_text.children(text, _member(text, root, "hooks").value_at))
    for members in places:
        seen: set[str | None] = set()
        for member in members:
            if member.key in seen:
                return member.key
            seen.add(member.key)
    return None


def hooks_in(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (event, hook)
        for event, groups in (settings.get("hooks") or {}).items()
        for group in groups
        for hook in _group_hooks(group)
    ]


def _group_hooks(group: object) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def users_own(settings: dict[str, Any]) -> frozenset[str]:
    return frozenset(event for event, hook in hooks_in(settings) if not is_ours(hook))


def tokens_in(settings: dict[str, Any]) -> frozenset[str]:
    """What our hooks send as Authorization; empty for one that sends nothing."""
    posted = (
        hook for _, hook in hooks_in(settings) if is_ours(hook) and hook.get("type") == "http"
    )
    headers = (hook.get("headers") for hook in posted)
    return frozenset(
        str(each.get("Authorization", "")) if isinstance(each, dict) else "" for each in headers
    )


def sockets_in(settings: dict[str, Any]) -> frozenset[str]:
    """Where the commands among our hooks hand on to; one that names none finds it by itself."""
    ours = [command_words(hook) for _, hook in hooks_in(settings) if is_ours(hook)]
    return frozenset(words[-1] for words in ours if words and SHIM_NAME not in words[-1])


def _without_first(text: str) -> str | None:
    """One of our hooks less, with all the brackets around it that would be left empty."""
    root = json_text.root(text)
    settings = json_text.parse(text)
    allowed = settings.get(ALLOWED_URLS)
    ours = {i for i, url in enumerate(allowed) if is_our_url(url)} if _is_list(allowed) else set()
    if ours:
        return json_text.drop(text, _member(text, root, ALLOWED_URLS).value_at, ours)
    for event, groups in (settings.get("hooks") or {}).items():
        for index, group in enumerate(groups):
            hooks = _group_hooks(group)
            ours = {i for i, hook in enumerate(hooks) if is_ours(hook)}
            if ours:
                return _drop_hooks(text, event, index, ours)
    return None


def _drop_hooks(text: str, event: str, index: int, ours: set[int]) -> str:
    root = json_text.root(text)
    at = [root]
    path: list[set[int]] = []
    for step in ("hooks", event, index, "hooks"):
        inside = json_text.children(text, at[-1])
        place = step if isinstance(step, int) else [child.key for child in inside].index(step)
        path.append({place})
        at.append(inside[place].value_at)
    path.append(ours)
    sizes = [len(json_text.children(text, position)) for position in at]
    # From the innermost array outwards: what would be left empty goes with what it held. The
    # group (depth 2 -> its "hooks" member, depth 3) goes whole, with its matcher.
    depth = 4
    if sizes[4] == len(ours):
        depth = 2
        while depth > 0 and sizes[depth] == 1:
            depth -= 1
    return json_text.drop(text, at[depth], path[depth])


def _member(text: str, at: int, key: str) -> Child:
    return next(child for child in json_text.children(text, at) if child.key == key)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def permits(patterns: list[Any], url: str) -> bool:
    return any(
        isinstance(pattern, str)
        and re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), url) is not None
        for pattern in patterns
    )
