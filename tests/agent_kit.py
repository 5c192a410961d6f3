"""Whether an adapter keeps the contract of `adsum_collector.agents.base`: is it total, tolerant of order, and silent?

Give each check what the agent's witnesses said, recorded, and an agent that is new for each reading:

    recorded = Recorded(MyAgent, {"hook": [(ms, body), …], "a/file.jsonl": [(ms, line), …]})
    check_total(recorded)
    check_order(recorded)
    await check_silent(recorded, tmp_path)

Each raises AssertionError, which names the witness and what it was given. docs/new-agent.md tells more.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from adsum_collector.agents.base import Agent, Surroundings
from adsum_hub.facts import Facts
from adsum_hub.fold.fold import fold
from adsum_hub.verdict.judge import judge
from adsum_shared.signals import AnySignal, decode_signal, encode_signal

Reader = Callable[[bytes, int], Sequence[AnySignal]]
#: What a witness may raise for what the agent would never say.
REFUSALS = (ValueError, msgspec.DecodeError, RecursionError)
#: Any JSON but the one that is expected there.
ODD: Sequence[Any] = (None, True, -1, 1e308, 1 << 70, "", "\x00", "\ud800", [], {}, [[]], {"a": {}})
#: No line of any agent.
NOISE = (
    *(b"", b"\n", b"\x00", b"\xff\xfe", b"{", b"[]", b"null", b"0", b'"a"', b"{}", b'{"":[]}'),
    *(b"[" * 100_000, b'{"a":' * 50_000, b'{"type":' + b"9" * 5_000 + b"}", b'{"id":"\\ud800"}'),
)
TRIES = 200


class Recorded(NamedTuple):
    """said: by witness, when each thing was heard (ms) and what it was.

    A witness is `hook`, `registry`, `statusline`, the path of a file below the agent's directory of
    transcripts, or `own`: what a witness of its own reads. own: makes a new reader of that.
    lay: puts the agent's files into its directory, where they are more than the lines that were heard.
    """

    agent: Callable[[], Agent]
    said: dict[str, Sequence[tuple[int, bytes]]]
    own: Callable[[], Reader] | None = None
    lay: Callable[[Path], None] | None = None


class _Reading:
    """One agent, as a collector has it: it is given each witness's words in their order."""

    def __init__(self, recorded: Recorded) -> None:
        self.agent = recorded.agent()
        self._own = recorded.own() if recorded.own else None
        self._contexts: dict[str, str] = {}

    def read(self, witness: str, seen: int, raws: Sequence[bytes]) -> list[AnySignal]:
        if witness in ("hook", "registry", "statusline"):
            told: Reader = getattr(self.agent, witness)
            return [signal for raw in raws for signal in told(raw, seen)]
        if witness == "own":
            assert self._own is not None, "a recording of `own` needs a reader of it"
            return [signal for raw in raws for signal in self._own(raw, seen)]
        transcripts = self.agent.transcripts
        file = transcripts.file_of(witness)
        assert file is not None, f"{witness} is no file of its own"
        context = self._contexts.get(witness, "")
        said = transcripts.read(raws, file, context, seen, None, lambda struct: struct)
        self._contexts[witness] = said.context
        return said.signals


def check_total(recorded: Recorded, seed: int = 1) -> None:
    """Whatever bytes come, it raises nothing but a refusal, and a reader of files not even that."""
    dice = random.Random(seed)
    for witness, heard in recorded.said.items():
        raws, at = [raw for _, raw in heard], max((ms for ms, _ in heard), default=1)
        for given in (
            *NOISE,
            *(_spoilt(dice, dice.choice(raws)) for _ in range(TRIES if raws else 0)),
        ):
            with _told(witness, given):
                _read_all(_Reading(recorded), witness, at, [*raws[:3], given])


def _read_all(reading: _Reading, witness: str, at: int, raws: Sequence[bytes]) -> None:
    is_file = witness not in ("hook", "registry", "statusline", "own")
    for raw in raws:
        with contextlib.suppress(*(() if is_file else REFUSALS)):
            for signal in reading.read(witness, at, [raw]):
                assert decode_signal(encode_signal(signal)) == signal, "no reader takes this signal"
    agent = reading.agent
    for raw in raws:
        agent.past(raw)
        if witness == "hook":
            agent.asked(raw)
        if witness == "registry":
            agent.registered(raw)
            agent.inbox(raw)
    file = agent.transcripts.file_of(witness) if is_file else None
    if file is not None:
        agent.transcripts.history(raws, raws[-1:], file)
        agent.transcripts.written(raws)
        opened = agent.transcripts.opening(raws, file)
        for context in (opened, "{", "\x00", "[]", '{"at":"a"}'):
            agent.transcripts.read(raws, file, context, at, b"{", lambda struct: struct)
        if agent.usage is not None:
            meter = agent.usage.meter("")
            meter.take(raws)
            meter.records()
            for raw in raws:
                agent.usage.has_usage(raw)
                agent.usage.own_time(raw)
                agent.usage.begun_in(raw)


def _spoilt(dice: random.Random, raw: bytes) -> bytes:
    """Torn somewhere, with another byte in it, or with one value of another kind."""
    if dice.random() < 0.3:
        return raw[: dice.randrange(len(raw) + 1)]
    if dice.random() < 0.2:
        at = dice.randrange(len(raw))
        return raw[:at] + bytes([dice.randrange(256)]) + raw[at + 1 :]
    whole = json.loads(raw)
    spots = list(_spots(whole))
    if spots:
        holder, key = dice.choice(spots)
        holder[key] = dice.choice(ODD)
    return json.dumps(whole).encode()


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in list(keys):
        yield value, key
        yield from _spots(inner)


@contextlib.contextmanager
def _told(witness: str, given: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{witness}: {error!r}, given {str(given)[:300]}") from error


def check_order(recorded: Recorded, seed: int = 1, tries: int = 20) -> None:
    """However its witnesses overtake each other, and repeat themselves, they end in the same state.

    And lines mean the same whether they are read one by one or all at once.
    """
    dice = random.Random(seed)
    streams = _streams(recorded)
    ends = _end(sorted((each for stream in streams for each in stream), key=lambda one: one[0]))
    for _ in range(tries):
        left = [list(stream) for stream in streams]
        merged: list[tuple[int, AnySignal]] = []
        while left := [stream for stream in left if stream]:
            merged.append(dice.choice(left).pop(0))
            if dice.random() < 0.2:
                merged.append(dice.choice(merged))
        assert _end(merged) == ends, "another order of arrival ends in another state"
    for witness, heard in recorded.said.items():
        at, raws = max((ms for ms, _ in heard), default=1), [raw for _, raw in heard]
        one_by_one = _Reading(recorded)
        singly = [signal for raw in raws for signal in one_by_one.read(witness, at, [raw])]
        assert _Reading(recorded).read(witness, at, raws) == singly, f"{witness}: by its chunks"


def _streams(recorded: Recorded) -> list[list[tuple[int, AnySignal]]]:
    """What each witness told, in its order. They are heard in the order of time: some explain others."""
    reading, told = _Reading(recorded), {witness: [] for witness in recorded.said}
    heard = [(ms, witness, raw) for witness, each in recorded.said.items() for ms, raw in each]
    for ms, witness, raw in sorted(heard, key=lambda one: one[0]):
        told[witness] += [(ms, signal) for signal in reading.read(witness, ms, [raw])]
    return list(told.values())


def _end(told: Sequence[tuple[int, AnySignal]]) -> dict[str, Any]:
    """By session: what is shown once all has come."""
    facts: dict[str, Facts | None] = {}
    for _, signal in told:
        facts[signal.session_id] = fold(facts.get(signal.session_id), signal)
    last = max((ms for ms, _ in told), default=0) + 1
    return {session: _shown(each, last) for session, each in facts.items() if each is not None}


def _shown(facts: Facts, now: int) -> Any:
    verdict = judge(facts, now)
    asked = sorted(str(request.id) for request in verdict.requests)
    return verdict.state.state, asked, facts.title, facts.about("cwd"), facts.usage


async def check_silent(recorded: Recorded, home: Path, for_s: float = 0.4) -> None:
    """It prints nothing, and leaves its owner's files as they are; where there are none, it makes none."""
    said, agent = io.StringIO(), recorded.agent()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        await _live(agent, home / "nobody", for_s)
        assert not (home / "nobody").exists(), "it makes a directory of an agent that is not here"
        places = _laid(recorded, agent, home)
        before = _tree(home)
        await _live(agent, home, for_s)
        for witness, heard in recorded.said.items():
            for ms, raw in heard:
                _Reading(recorded).read(witness, ms, [raw])
        for place in places:
            hooks = agent.hook_file(place)
            if hooks is not None:
                agent.look_at_hooks(hooks, 1)
    assert _tree(home) == before, "it changes what is its owner's"
    assert said.getvalue() == "", f"it prints: {said.getvalue()[:300]}"


def _laid(recorded: Recorded, agent: Agent, home: Path) -> tuple[Path, ...]:
    places = agent.directories({}, home)
    places[0].mkdir(parents=True)
    if recorded.lay is not None:
        recorded.lay(places[0])
    for root in agent.transcript_dirs(places, {}, home)[:1]:
        for witness, heard in recorded.said.items():
            if agent.transcripts.file_of(witness) is not None:
                path = root / witness
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"".join(raw + b"\n" for _, raw in heard))
    return places


async def _live(agent: Agent, home: Path, for_s: float) -> None:
    """Its own witnesses, for a while."""

    async def accept(_signals: Sequence[AnySignal]) -> int:
        return 0

    around = Surroundings(accept, dict, lambda _pid: 1, lambda: 1_800_000_000_000)
    witnesses = agent.own_witnesses(agent.directories({}, home), around)
    tasks = [asyncio.create_task(each.run()) for each in witnesses]
    if tasks:
        done, running = await asyncio.wait(tasks, timeout=for_s)
        assert not done, f"a witness of its own has ended: {[task.exception() for task in done]}"
        for task in running:
            task.cancel()
        await asyncio.wait(running)
    for each in witnesses:
        msgspec.json.encode(each.health(1))


def _tree(home: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(home.rglob("*"))
    }
