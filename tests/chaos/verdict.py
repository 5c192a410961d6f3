"""Everything that is looked at once a run is quiet: tapes, facts, and that all show the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from adsum_hub.facts import Facts
from adsum_shared import streams
from tests.chaos import story
from tests.chaos.load import StoryTeller
from tests.chaos.oracle import Finding, Shown, judge
from tests.chaos.scene import Scene
from tests.chaos.views import (
    Views,
    ask,
    common_host,
    common_session,
    differences,
    shown,
    still_host,
)


async def look(
    scene: Scene, stories: Sequence[StoryTeller]
) -> tuple[list[Finding], dict[str, Views]]:
    """What is not as promised at this moment, and what the hubs show."""
    names = {machine.host_id: name for name, machine in scene.fleet.machines.items()}
    told: dict[str, Views] = {name: await ask(hub.url) for name, hub in scene.fleet.hubs.items()}
    tapes = {name: shown(*views, names) for name, views in told.items()}
    allowed = {name: machine.allowed for name, machine in scene.fleet.machines.items()}
    found = judge(scene.ledger.streams, tapes, allowed)
    found += _hubs_alike(told)
    for name, views in told.items():
        found += _client_alike(scene, name, views)
    found += await _facts_alike(scene, stories, tapes)
    return found, told


def _hubs_alike(told: dict[str, Views]) -> list[Finding]:
    found = []
    for (one, ones), (other, others) in itertools.pairwise(told.items()):
        where = f"{one} and {other}"
        for mine, theirs, common in (
            (ones[0], others[0], common_session),
            (ones[1], others[1], common_host),
        ):
            left = {key: common(view) for key, view in mine.items()}
            right = {key: common(view) for key, view in theirs.items()}
            found += [Finding("apart", where, words) for words in differences(left, right)]
    return found


def _client_alike(scene: Scene, name: str, views: Views) -> list[Finding]:
    watcher = scene.watchers[name]
    where = f"{name} and its client"
    hosts = {key: still_host(view) for key, view in views[1].items()}
    held = {key: still_host(view) for key, view in watcher.hosts.items()}
    words = differences(views[0], watcher.sessions) + differences(hosts, held)
    return [Finding("apart", where, each) for each in words]


async def _facts_alike(
    scene: Scene, stories: Sequence[StoryTeller], tapes: dict[str, Shown]
) -> list[Finding]:
    """What hubs have stored of each real story is what one sequential fold makes of it."""
    found = []
    for teller in stories:
        machine = scene.machine(teller.machine.name)
        stored = await _stored(scene, machine.host_id, teller.session_id)
        applied = next(iter(tapes.values())).tapes.get(teller.session_id, ())
        if stored is None or any(name not in teller.known for name in applied):
            found.append(Finding("apart", teller.session_id, "nothing comparable is stored"))
            continue
        expected = story.told_in_order(teller.told, applied, machine.salt)
        if stored != expected:
            found.append(Finding("apart", teller.session_id, "its stored facts are no fold of it"))
    return found


async def _stored(scene: Scene, host_id: str, session_id: str) -> Facts | None:
    async def read(redis: Any) -> Any:
        return await redis.hget(streams.snapshot(host_id), streams.SESSION + session_id)

    raw = await scene.broker(read)
    return None if raw is None else msgspec.json.decode(raw, type=Facts)
