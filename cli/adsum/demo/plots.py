"""The plots of the demo: what happens to a session, again and again, without an end."""

from __future__ import annotations

from collections.abc import Callable

from adsum.demo import scenes
from adsum.demo.scenes import Scene
from adsum.demo.troubles import TROUBLES
from adsum.demo.voice import Voice
from adsum_shared import signals as s

Plot = Callable[[Voice], Scene]


def engineer(voice: Voice) -> Scene:
    while True:
        voice.prompt()
        yield from scenes.works(voice)
        if voice.rng.random() < 0.2:
            yield from scenes.asks_permission(voice, 20, 90)
        yield from scenes.works(voice)
        yield from scenes.commits(voice)
        voice.stop(voice.done)
        yield from scenes.pauses(voice)


def guarded(voice: Voice) -> Scene:
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice)
        yield from scenes.asks_permission(voice, 100, 420)
        yield from scenes.works(voice)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 15, 60)


def curious(voice: Voice) -> Scene:
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice)
        yield from scenes.asks_question(voice, 120, 480)
        yield from scenes.works(voice)
        voice.stop(f"{voice.done} Shall I open a pull request?")
        yield from scenes.pauses(voice, 60, 200)


def planner(voice: Voice) -> Scene:
    while True:
        voice.mode = "plan"
        voice.prompt()
        voice.say(s.MetaChanged, mode=voice.mode)
        yield from scenes.looks_around(voice, 3)
        yield from scenes.shows_plan(voice, 150, 500)
        yield from scenes.works(voice)
        voice.stop(voice.done)
        yield from scenes.pauses(voice)


def connecting(voice: Voice) -> Scene:
    while True:
        voice.prompt("File what is left over as issues, one each")
        yield from scenes.looks_around(voice)
        yield from scenes.opens_dialog(voice, 150, 500)
        yield from scenes.works(voice)
        voice.stop("Three issues are filed, the largest is split in two.")
        yield from scenes.pauses(voice)


def captain(voice: Voice) -> Scene:
    while True:
        voice.prompt()
        yield from scenes.thinks(voice)
        yield from scenes.delegates(voice, 3, asks=voice.rng.random() < 0.3)
        yield from scenes.edits(voice)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 20, 90)


def serving(voice: Voice) -> Scene:
    return _leaving(voice, "shell", "npm run dev", 240, 600)


def watching(voice: Voice) -> Scene:
    return _leaving(voice, "monitor", "Watch the backfill until its last batch", 200, 500)


def scheduled(voice: Voice) -> Scene:
    """By turns: something that comes back at its hour, and a workflow of several steps."""
    while True:
        for kind, words in (
            ("cron", "Every night at 02:00: check yesterday's counts"),
            ("workflow", "Release checks: build, sign, smoke test"),
        ):
            voice.prompt()
            yield from scenes.looks_around(voice)
            yield from scenes.leaves_running(voice, kind, words, 150, 400)
            voice.stop("All checks passed.")
            yield from scenes.pauses(voice, 20, 60)


def _leaving(voice: Voice, kind: str, words: str, low: float, high: float) -> Scene:
    while True:
        voice.prompt()
        yield from scenes.edits(voice, 1)
        yield from scenes.leaves_running(voice, kind, words, low, high)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 20, 60)


def finisher(voice: Voice) -> Scene:
    """Sets itself tasks, and is done with all of them."""
    while True:
        voice.prompt()
        yield from scenes.thinks(voice)
        tasks = [(voice.name("t"), words) for words in voice.job.tasks or (voice.job.title,)]
        for task_id, subject in tasks:
            voice.say(s.TaskCreated, task_id=task_id, subject=subject)
        for task_id, subject in tasks:
            yield from scenes.edits(voice, 1)
            yield from scenes.tests(voice, fail=False)
            voice.say(s.TaskCompleted, task_id=task_id, subject=subject)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 240, 700)


def fresh(voice: Voice) -> Scene:
    """Opened, and nobody has typed anything yet."""
    yield 2300
    yield from engineer(voice)


def writer(voice: Voice) -> Scene:
    while True:
        voice.prompt()
        for file in voice.project.files[:3]:
            yield from scenes.calls(voice, "Write", file, low=8, high=25)
            yield from scenes.thinks(voice)
        yield from scenes.calls(voice, "Bash", voice.project.build, low=5, high=15)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 40, 120)


def researcher(voice: Voice) -> Scene:
    """Looks things up; nothing it finds is real, nor are the addresses."""
    while True:
        voice.prompt()
        for words in ("reed bed expansion rate", "shoreline survey methods", "wetland mapping"):
            yield from scenes.calls(voice, "WebSearch", words, low=3, high=9)
            yield from scenes.thinks(voice)
            address = f"https://library.example/{words.replace(' ', '-')}"
            yield from scenes.calls(voice, "WebFetch", address, low=4, high=12)
            yield from scenes.thinks(voice)
        yield from scenes.calls(voice, "Write", "reed-beds.md", low=6, high=20)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 40, 120)


PLOTS: dict[str, Plot] = {
    plot.__name__: plot
    for plot in (
        *(engineer, guarded, curious, planner, connecting, captain, serving, watching, scheduled),
        *(finisher, fresh, writer, researcher, *TROUBLES),
    )
}
