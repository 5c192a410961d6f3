"""The demo's story: forty sessions on six machines, played from story.toml in order. Pure."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from heapq import heapify, heapreplace
from importlib.resources import files
from random import Random
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import msgspec

from adsum_collector.agents import known_agents
from adsum_shared import __version__
from adsum_shared.envelope import Beat
from adsum_shared.signals import DEFAULT_AGENT, AnySignal, decode_signal
from adsum_shared.state import HostWitness, ScanProgress

MINUTE = 60_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
IDS = UUID("5f2d6c1e-9d0b-4b7e-8f63-ad50ad50ad50")
OPUS, SONNET = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"
MODELS = (OPUS, SONNET, SONNET, OPUS, "claude-haiku-4-5-20251001")
AGENT_VERSION = "2.1.330"
CONTEXT_SIZE, FIRST_CONTEXT = 200_000, 18_000
#: What has been played before anybody looks. So long that every state there is is on the page at
#: once: a change of a plot asks for another look at this number.
WARM_MS = 2_493_500
#: They do not all begin at once.
SPREAD_MS = 8 * MINUTE
#: Twice the days that a report usually shows, so that it can be compared; and how many sessions
#: all machines together have on each day of a week.
DAYS, OF_WEEK = 60, (13, 13, 13, 13, 13, 4, 4)
#: One machine reads its history, and begins anew some time after it is done. BEGUN_MS: where it is
#: when somebody comes to look.
READING_MS, READ_AGAIN_MS, BEGUN_MS = 34 * MINUTE, 40 * MINUTE, 11 * MINUTE
FILES, BYTES, BYTES_PER_S = 4_180, 6_300_000_000, 3_088_000
#: Where a job names no steps.
TASKS = ("Pin what it does today with tests", "Change one place at a time", "Measure, then compare")

SCRIPT: dict[str, Any] = tomllib.loads((files(__package__) / "story.toml").read_text("utf-8"))
SCENES: dict[str, list[Any]] = SCRIPT["scenes"] | SCRIPT["plots"]

Waits = Iterator[float]
#: A scene's name, or its steps.
Scene = str | list[Any]


class Machine(msgspec.Struct):
    """skew_ms: how far its clock is ahead. reads: it still reads its history.

    limits: how much of its account's is used at most, in per cent. plan: that pays for the agents
    which tell of one. up_s: from when to when it is connected, in each period of so many seconds.
    """

    label: str
    home: str
    limits: dict[str, float]
    plan: str | None = None
    skew_ms: int = 0
    up_s: tuple[int, int, int] = (0, 1, 1)
    says_goodbye: bool = False
    reads: bool = False
    hooks_missing: str | None = None
    #: its owner lets people elsewhere answer what is asked there
    control: bool = False

    @property
    def host_id(self) -> str:
        return str(uuid5(IDS, self.label))

    def is_connected(self, played_ms: int) -> bool:
        """played_ms: since the audience came, in true time."""
        start, end, period = (each * 1000 for each in self.up_s)
        return start <= played_ms % period < end

    def beat(self, now: int, played_ms: int, **delivery: Any) -> Beat:
        """now: true time, ms. delivery: the fields that only the one who publishes knows."""
        at, note = now + self.skew_ms, self.hooks_missing
        hook = HostWitness("hook", "missing", note=note) if note else None
        heard = ("transcript", "registry", "process", "statusline", "shim")
        return Beat(
            host_id=self.host_id,
            label=self.label,
            at=at,
            version=__version__,
            agent_version=AGENT_VERSION,
            witnesses=(
                hook or HostWitness("hook", "ok", at - 900),
                *(HostWitness(name, "ok", at - 1_700) for name in heard),
            ),
            scan=progress(played_ms) if self.reads else None,
            agents=tuple(agent.words for agent in known_agents()),
            **delivery,
        )


def progress(played_ms: int) -> ScanProgress | None:
    gone = (played_ms + BEGUN_MS) % READ_AGAIN_MS
    if gone >= READING_MS:
        return None
    done, left_s = gone / READING_MS, round((READING_MS - gone) / 1000)
    return ScanProgress(FILES, int(FILES * done), BYTES, int(BYTES * done), BYTES_PER_S, left_s)


class Role(NamedTuple):
    machine: str
    plot: str
    project: str
    agent: str = DEFAULT_AGENT


MACHINES = msgspec.convert(SCRIPT["machines"], tuple[Machine, ...])
ROLES = tuple(Role(*line.split()) for line in SCRIPT["sessions"])


class Said(NamedTuple):
    """at: true time, ms. The signals bear their machine's own time, which may be another."""

    at: int
    machine: Machine
    signals: list[AnySignal]


class Fleet:
    """start: true time, ms, at which the audience comes. The same start: the same story."""

    def __init__(self, start: int) -> None:
        machines = {machine.label: machine for machine in MACHINES}
        #: due, number, player, its plot; no two have one number
        self._stories: list[tuple[int, int, Player, Waits]] = []
        jobs: Counter[str] = Counter()
        for number, role in enumerate(ROLES):
            rng = Random(number)  # noqa: S311 - a story needs no secrets
            due = start - WARM_MS + rng.randrange(SPREAD_MS)
            job, machine = jobs[role.project], machines[role.machine]
            player = Player(role, machine, rng, f"session {number}", job)
            jobs[role.project] += 1
            player.open(due, used=role.plot != "fresh")
            self._stories.append((due, number, player, player.forever(role.plot)))
        heapify(self._stories)

    def directory_of(self, session_id: str) -> str:
        return next(
            str(each.own["cwd"]) for _, _, each, _ in self._stories if each.session_id == session_id
        )

    def answer(self, session_id: str, behavior: str, now: int) -> None:
        """Somebody has allowed or denied what it asks, so it waits no longer. now: true time, ms."""
        for place, (_, number, player, plot) in enumerate(self._stories):
            if player.session_id == session_id:
                player.answer = behavior
                self._stories[place] = now, number, player, plot
        heapify(self._stories)

    @property
    def due(self) -> int:
        """When something happens next."""
        return self._stories[0][0]

    def until(self, now: int) -> Iterator[Said]:
        """All that has happened since it was asked last."""
        while self.due <= now:
            due, number, player, plot = self._stories[0]
            player.now = due + player.machine.skew_ms
            wait = next(plot)
            heapreplace(self._stories, (due + max(50, int(wait * 1000)), number, player, plot))
            signals, player.said = player.said, []
            if signals:
                yield Said(due, player.machine, signals)


def history(machine: Machine, start: int) -> Iterator[AnySignal]:
    """What reading its transcripts of sixty days would tell, oldest first. start: true time, ms."""
    rng = Random(machine.label)  # noqa: S311 - as above
    roles = [role for role in ROLES if role.machine == machine.label]
    for back in range(DAYS, 0, -1):
        noon = start + machine.skew_ms - back * DAY
        share = len(roles) / len(ROLES) * OF_WEEK[date.fromisoformat(_day_of(noon)).weekday()]
        grown = 0.6 + (DAYS - back) / DAYS  # more and more of it, as it goes with such tools
        for number in range(int(share * grown + rng.random())):
            role = rng.choice(roles)
            job = rng.randrange(len(SCRIPT["projects"][role.project]["jobs"]))
            player = Player(role, machine, rng, f"past {machine.label} {back} {number}", job)
            player.now = noon - rng.randrange(6 * HOUR)
            player.own["start"] = start + machine.skew_ms
            for wait in player.play("past"):
                player.now += int(wait * 1000)
            yield from player.said


class Player:
    """Plays one session. now: ms of its machine's clock. said: signals that wait to be taken.

    Its methods without an underscore are what a step of the script may call.
    """

    def __init__(self, role: Role, machine: Machine, rng: Random, name: str, job: int) -> None:
        self.machine, self.rng, self.session_id = machine, rng, str(uuid5(IDS, name))
        self.now = 0
        self.said: list[AnySignal] = []
        self._agent, self._tools = role.agent, SCRIPT["agents"].get(role.agent, {}).get("tools", {})
        self._project = project = SCRIPT["projects"][role.project]
        self._job = project["jobs"][job]
        self._turns = 0
        self._used: dict[str, Counter[str]] = {}
        #: what the audience has said to what it asks: allow or deny
        self.answer: str | None = None
        slug = "-".join(self._job["title"].lower().split()[:3])
        #: words of its own, beside those of its project
        self.own: dict[str, Any] = {
            "cwd": f"{machine.home}/src/{role.project}",
            "project": role.project,
            "branch": (*project["branches"][job : job + 1], f"feature/{slug}")[0],
            "model": OPUS if role.plot == "spending" else rng.choice(MODELS),
            "version": AGENT_VERSION,
            "turn": None,
            "context": FIRST_CONTEXT,
            "pays": None,
            "decided_by": None,
            "asks": "",
            **{f"helper{number}": words for number, words in enumerate(project["helpers"], 1)},
        }
        if about := SCRIPT["agents"].get(role.agent):
            self.own |= {"pays": machine.plan, "model": about["model"], "version": about["version"]}

    def open(self, due: int, *, used: bool) -> None:
        """It was there before: it has used something up, and has a context."""
        self.now = due + self.machine.skew_ms - self.rng.randrange(HOUR // 2, 3 * HOUR)
        list(self.play("begin"))
        if used:
            self.own["context"] = self.rng.randrange(FIRST_CONTEXT, 120_000)
            self.use(20, 90)
            list(self.play("usage"))

    def play(self, scene: Scene) -> Waits:
        for step in SCENES[scene] if isinstance(scene, str) else scene:
            if isinstance(step, str):
                yield from self.play(step)
            elif isinstance(step, dict):
                self._say(step)
            else:
                yield from getattr(self, step[0])(*step[1:]) or ()

    def forever(self, scene: Scene) -> Waits:
        while True:
            yield from self.play(scene)

    def times(self, low: int, high: int, scene: Scene) -> Waits:
        for _ in range(self.rng.randint(low, high)):
            yield from self.play(scene)

    def either(self, chance: float, scene: Scene, otherwise: Scene = []) -> Waits:  # noqa: B006 - only read
        return self.play(scene if self.rng.random() < chance else otherwise)

    def answered(self, chance: float, allowed: Scene, denied: Scene) -> Waits:
        """What it asked is answered: by the audience, or else by its human, who says no by chance."""
        said, self.answer = self.answer, None
        self.own["decided_by"] = "hook" if said else None
        no = said == "deny" or (said is None and chance > 0 and self.rng.random() < chance)
        return self.play(denied if no else allowed)

    def if_full(self, scene: Scene) -> Waits:
        return self.play(scene if self.own["context"] > CONTEXT_SIZE * 0.9 else [])

    def wait(self, low: float, high: float) -> Waits:
        yield self.rng.uniform(low, high)

    def pause(self, low: float, high: float) -> Waits:
        """Until its human types the next prompt, which is about the next job."""
        yield from self.wait(low, high)
        self._turns += 1

    def call(
        self, calls: list[str], low: float, high: float, more: dict[str, Any] | None = None
    ) -> Waits:
        """One of these: a tool, and what it is called with. more: of its end; agent_id of both."""
        call, more = self._filled([self.rng.choice(calls), more or {}])
        tool, _, summary = call.partition(" ")
        tool, _, summary = f"{self._tools.get(tool, tool)} {summary}".partition(" ")
        about = {"tool": tool, "tool_use_id": f"toolu_{self.rng.getrandbits(64):016x}"}
        start = {**about, "summary": summary, "timeout_ms": 600_000 if tool == "Bash" else None}
        self._say({"kind": "tool.started", **start, "agent_id": more.get("agent_id")})
        yield from self.wait(low, high)
        self._say({"kind": "tool.finished", **about, **more})

    def turn(self, begins: bool = True) -> None:  # noqa: FBT001, FBT002 - a step of the script
        self.own["turn"] = str(UUID(int=self.rng.getrandbits(128), version=4)) if begins else None

    def process(self) -> None:
        self.own |= {"pid": self.rng.randrange(2_000, 60_000), "started": self.now - 400}

    def let(self, words: dict[str, Any]) -> None:
        self.own |= words

    def use(self, low: int, high: int) -> None:
        """So many messages' worth."""
        messages, grown = self.rng.randint(low, high), self.rng.randrange(500, 2_600)
        self.own["context"] = context = min(self.own["context"] + grown, CONTEXT_SIZE - 4_000)
        self.own["day"] = day = _day_of(self.now)
        self.own["used"] = used = self._used.setdefault(day, Counter())
        used["messages"] += messages
        used["input_tokens"] += messages * self.rng.randrange(4, 400)
        used["output_tokens"] += messages * self.rng.randrange(90, 900)
        used["cache_read_tokens"] += messages * int(context * self.rng.uniform(0.2, 0.5))
        used["cache_5m_tokens"] += messages * grown

    def _say(self, step: dict[str, Any]) -> None:
        """By a hook, and now, where the step says nothing else. Through JSON, as over the wire."""
        source = "transcript" if self.machine.hooks_missing else "hook"
        about: dict[str, Any] = {"session_id": self.session_id, "at": self.now, "seen": self.now}
        about |= {
            "agent": self._agent,
            "source": source,
            "prompt_id": self.own["turn"],
            **self._filled(step),
        }
        about |= about.pop("*", {})
        if "tool" in about:
            about["role"] = SCRIPT["roles"].get(about["tool"], "mcp")
        self.said.append(decode_signal(json.dumps(about).encode()))

    def _filled(self, value: Any, words: dict[str, Any] | None = None) -> Any:
        """A text that is nothing but {word} becomes what it stands for, text or not."""
        words = self._words() if words is None else words
        if isinstance(value, dict):
            return {key: self._filled(each, words) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each, words) for each in value]
        if not isinstance(value, str):
            return value
        alone = value[:1] == "{" and value[1:-1] in words
        return words[value[1:-1]] if alone else value.format_map(words)

    def _words(self) -> dict[str, Any]:
        project, job, turns = self._project, self._job, self._turns
        wish, done = SCRIPT["next"][(turns + len(job["title"])) % len(SCRIPT["next"])]
        file = self.rng.choice(project["files"]).rpartition("/")[2]
        command, why = project["risky"][turns % len(project["risky"])]
        asked = project["questions"][turns % len(project["questions"])]
        tasks = enumerate(job.get("tasks", TASKS), 1)
        return {
            **self.own,
            **{name: words for name, words in project.items() if isinstance(words, str)},
            **{f"task{number}": task for number, task in tasks},
            **job,
            **asked,
            "file": file,
            "command": command,
            "why": why,
            "asked": asked,
            "wish": wish if turns else job["prompt"],
            "done": done if turns else job["done"],
            "limits": self._limits(),
        }

    def _limits(self) -> list[dict[str, Any]]:
        """They fill up evenly and begin anew, as an account's do; in true time."""
        at, found = self.now - self.machine.skew_ms, []
        begun = len(self.machine.label) + 37 * (self._agent != DEFAULT_AGENT)
        for name, most in self.machine.limits.items():
            length = 5 * HOUR if name == "five_hour" else 7 * DAY
            gone = (at + begun * HOUR) % length
            used = round(most * (0.45 + 0.55 * gone / length), 1)
            found.append({"name": name, "used_percent": used, "resets_at": at - gone + length})
        return found


def _day_of(ms: int) -> str:
    """The ISO date where this runs, as collectors write it."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().date().isoformat()
