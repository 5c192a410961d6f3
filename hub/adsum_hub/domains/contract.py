"""The contract with plugins: what they are asked, what they may answer, and its check."""

import re
from typing import Any, get_args

import msgspec
import pluggy

from adsum_shared.state import Chip, SessionView, Tone

#: Raised when a plugin written for the older contract would be wrong under the newer one.
API_VERSION = 1
#: The entry point group, and pluggy's name for the same.
GROUP = "adsum.domains"

LABEL_MAX = 80
CHIP_MAX = 24
CHIPS_MAX = 4
HINTS = range(1, 9)

TONES: frozenset[str] = frozenset(get_args(Tone))
_ICON = re.compile(r"[a-z][a-z0-9-]{0,39}")

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


class Display(msgspec.Struct, frozen=True, kw_only=True):
    """How to show a session. What is None stays as the core has it; group and state always do.

    label: instead of the core's. icon: a name of the page's icon set; one that it lacks changes
    nothing. urgency_hint: among sessions that need a human, where to sort it, 1 (first) to 8.
    """

    label: str | None = None
    icon: str | None = None
    urgency_hint: int | None = None
    chips: tuple[Chip, ...] = ()


class DomainSpec:
    """pluggy holds each plugin's `interpret` against this one's arguments."""

    @hookspec(firstresult=True)
    def interpret(self, session: SessionView) -> Display | None:
        """Pure and quick: no clock, no network, no file. None: nothing to say of this session."""


class BadDisplayError(ValueError):
    """A plugin's answer is not what the contract allows; says what is wrong, not what it said."""


def check(answer: object) -> Display:
    """The answer itself if every field of it holds; structs do not check what they are made of.

    Raises BadDisplayError. Exact types, since a subclass can answer anything to each question.
    """
    if type(answer) is not Display:
        raise BadDisplayError(f"interpret returned {_kind(answer)}, neither a Display nor None")
    if answer.label is not None:
        _one_line("label", answer.label, LABEL_MAX)
    icon = answer.icon
    if icon is not None and (type(icon) is not str or not _ICON.fullmatch(icon)):
        raise BadDisplayError("icon is not the name of one: small letters, digits and hyphens")
    hint = answer.urgency_hint
    if hint is not None and (type(hint) is not int or hint not in HINTS):
        raise BadDisplayError(f"urgency_hint is no whole number from {HINTS[0]} to {HINTS[-1]}")
    _check_chips(answer.chips)
    return answer


def _check_chips(chips: Any) -> None:
    if type(chips) is not tuple:
        raise BadDisplayError(f"chips is {_kind(chips)}, not a tuple")
    if len(chips) > CHIPS_MAX:
        raise BadDisplayError(f"{len(chips)} chips; {CHIPS_MAX} is the most")
    for chip in chips:
        if type(chip) is not Chip:
            raise BadDisplayError(f"one of chips is {_kind(chip)}, not a Chip")
        _one_line("a chip's text", chip.text, CHIP_MAX)
        if type(chip.tone) is not str or chip.tone not in TONES:
            raise BadDisplayError(f"a chip's tone is none of {', '.join(sorted(TONES))}")


def _one_line(what: str, text: Any, most: int) -> None:
    if type(text) is not str:
        raise BadDisplayError(f"{what} is {_kind(text)}, not a str")
    if not text.strip():
        raise BadDisplayError(f"{what} is empty; leave it out instead")
    if len(text) > most:
        raise BadDisplayError(f"{what} has {len(text)} characters; {most} is the most")
    # Not printable are line ends, controls, what turns the direction of text, half surrogates.
    if not text.isprintable():
        raise BadDisplayError(f"{what} holds a line end or another character nobody can see")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"[:60]
