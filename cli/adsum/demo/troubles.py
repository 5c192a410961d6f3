"""Plots of the demo in which something is not as it should be, or a session is over for a while."""

from __future__ import annotations

from adsum.demo import scenes
from adsum.demo.scenes import Scene
from adsum.demo.voice import CONTEXT_SIZE, Voice
from adsum_shared import signals as s


def packing(voice: Voice) -> Scene:
    """Always near the end of its context."""
    voice.prompt()
    while True:
        voice.context = int(CONTEXT_SIZE * 0.91)
        yield from scenes.looks_around(voice)
        yield from scenes.compacts(voice, 70, 110)
        yield from scenes.edits(voice)


def unlucky(voice: Voice) -> Scene:
    """The API is overloaded: sometimes it comes back in time, sometimes it does not."""
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice)
        yield from scenes.retries(voice, 6)
        if voice.rng.random() < 0.5:
            about = {"error": "overloaded", "message": "API Error: 529 overloaded"}
            voice.say(s.TurnFailed, **about)
            yield from scenes.pauses(voice, 120, 300)
        else:
            yield from scenes.works(voice)
            voice.stop(voice.done)
            yield from scenes.pauses(voice, 15, 40)


def red(voice: Voice) -> Scene:
    """A test that fails and stays so, until its human says what is wrong."""
    while True:
        voice.prompt()
        yield from scenes.edits(voice, 1)
        test, failure = voice.project.test, voice.project.failure
        for _ in range(2):
            yield from scenes.calls(voice, "Bash", test, low=10, high=30, error=failure)
            yield voice.between(6, 9)
            yield from scenes.edits(voice, 1)
        yield from scenes.calls(voice, "Bash", test, low=10, high=30, error=failure)
        yield voice.between(60, 100)
        voice.say(s.TurnFailed, error="rate_limit", message="API Error: usage limit reached")
        yield from scenes.pauses(voice, 100, 240)


def silent(voice: Voice) -> Scene:
    """Something hangs; after some minutes it goes on."""
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice)
        yield voice.between(380, 700)
        yield from scenes.works(voice)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 10, 30)


def hasty(voice: Voice) -> Scene:
    """Its human types the next prompt before the last one is done."""
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice, 1)
        voice.say(s.PromptSubmitted, origin="queued", text="And then run the whole suite")
        yield from scenes.edits(voice, 1)
        voice.stop("Done.")
        yield voice.between(25, 50)
        voice.say(s.PromptDequeued, "transcript")
        voice.prompt("And then run the whole suite")
        yield from scenes.tests(voice, fail=False)
        voice.stop(voice.done)
        yield from scenes.pauses(voice, 10, 30)


def spending(voice: Voice) -> Scene:
    """Goes through its budget in one go; then its human lets it go on."""
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice)
        voice.count(250)
        voice.tell_usage()
        yield voice.between(10, 20)
        voice.stop(voice.done)
        yield voice.between(240, 600)
        voice.prompt("Go on, it is worth it")
        yield from scenes.works(voice)
        voice.stop(voice.done)
        yield voice.between(15, 40)


def interrupted(voice: Voice) -> Scene:
    while True:
        voice.prompt()
        yield from scenes.looks_around(voice)
        voice.say(s.TurnInterrupted, "transcript")
        yield from scenes.pauses(voice, 200, 500)
        voice.prompt("No, only the part about the weather")
        yield from scenes.works(voice)
        voice.stop(voice.done)
        yield from scenes.pauses(voice)


def leaver(voice: Voice) -> Scene:
    return _ending(voice, None)


def suspended(voice: Voice) -> Scene:
    return _ending(voice, "control.suspended")


def dismissed(voice: Voice) -> Scene:
    return _ending(voice, "control.dismissed")


def _ending(voice: Voice, decided: str | None) -> Scene:
    """Is closed, and taken up again much later."""
    while True:
        voice.prompt()
        yield from scenes.edits(voice, 1)
        voice.stop(voice.done)
        yield voice.between(10, 30)
        voice.end()
        yield 2.0
        if decided is not None:
            voice.decide(decided)
        yield from scenes.pauses(voice, 900, 1500)
        voice.begin("resume")
        yield voice.between(5, 15)


TROUBLES = (
    *(packing, unlucky, red, silent, hasty, spending, interrupted, leaver, suspended, dismissed),
)
