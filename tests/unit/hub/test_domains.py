"""What a domain can and cannot do to a session: bounds, faults, time, and what stays the core's."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec
import pytest

from adsum_hub.domains import API_VERSION, Chip, Display
from adsum_hub.domains.contract import CHIP_MAX, LABEL_MAX, BadDisplayError, check
from adsum_hub.domains.show import LIMIT_S, DomainChoice, Domains
from adsum_shared.state import DisplayView, RequestView
from tests.domains import FACTS, Asked, Ticks, asking, view


def says(**fields: Any) -> Asked:
    return Asked(lambda _: Display(**fields))


def test_a_display_is_added_and_the_core_stays_as_it_is():
    core = view("needs_permission", {"tool": "Bash"}, urgency=1)
    display = Display(
        label="Deploying", icon="server", urgency_hint=8, chips=(Chip("live", "bad"),)
    )

    shown = asking(ops=Asked(lambda _: display)).shown(core, None, FACTS)

    assert msgspec.structs.replace(shown, display=None, rank=core.rank) == core
    assert shown.display == DisplayView("Deploying", "server", 8, (Chip("live", "bad"),), ("ops",))


def test_a_domain_with_nothing_to_say_leaves_no_trace():
    silent, empty = Asked(lambda _: None), says()

    shown = asking(silent=silent, empty=empty).shown(view(), None, FACTS)

    assert shown.display is None
    assert silent.sessions == empty.sessions == ["s1"]


def test_of_two_domains_the_first_that_says_a_thing_is_heard_and_the_chips_of_both():
    first = says(icon="bot", chips=(Chip("a"), Chip("b"), Chip("c")))
    second = says(label="Second", icon="cpu", chips=(Chip("d"), Chip("e")))

    display = asking(first=first, second=second).shown(view(), None, FACTS).display

    assert display is not None
    assert (display.label, display.icon) == ("Second", "bot")
    assert [chip.text for chip in display.chips] == ["a", "b", "c", "d"]
    assert display.domains == ("first", "second")


def test_a_view_that_has_not_changed_is_not_interpreted_again():
    domain = says(label="Once")
    domains = asking(domain=domain)
    shown = domains.shown(view(), None, FACTS)

    assert domains.shown(view(), shown, FACTS) is shown
    assert len(domain.sessions) == 1

    domains.shown(view(title="Now it has one"), shown, FACTS)
    assert len(domain.sessions) == 2


def test_a_display_goes_when_the_domain_has_nothing_more_to_say():
    domains = asking(domain=Asked(lambda s: Display(label="Titled") if s.title else None))
    before = domains.shown(view(title="x"), None, FACTS)

    assert before.display is not None
    assert domains.shown(view(), before, FACTS).display is None


def test_only_the_domains_chosen_for_the_project_are_asked():
    shop, blog = says(label="Shop"), says(label="Blog")
    choice = DomainChoice([("blog-*", ("blog",)), ("none", ())])
    domains = Domains({"sdlc": shop, "blog": blog}, choice, Ticks())

    labels = [
        shown.display and shown.display.label
        for name in ("blog-one", "none", "other")
        for shown in [domains.shown(view(project=name), None, FACTS)]
    ]

    assert labels == ["Blog", None, "Shop"]


def test_an_urgency_hint_sorts_among_those_who_need_a_human_and_nowhere_else():
    core = {
        "asks": view("needs_permission", name="asks", urgency=1),
        "later": view("needs_permission", name="later", urgency=1),
        "idle": view("idle", name="idle", urgency=7),
        "works": view("acting", name="works"),
    }
    hints = {"later": 8, "works": 1}
    domain = Asked(lambda session: Display(urgency_hint=hints.get(session.session_id)))

    shown = [asking(domain=domain).shown(each, None, FACTS) for each in core.values()]

    order = [each.session_id for each in sorted(shown, key=lambda each: each.rank)]
    assert order == ["asks", "idle", "later", "works"]
    assert all(each.urgency == core[each.session_id].urgency for each in shown)


# One that fails.


def raising(error: BaseException) -> Asked:
    def answer(_: object) -> object:
        raise error

    return Asked(answer)


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), SystemExit(1)], ids=repr)
def test_one_that_raises_is_left_out_and_the_core_and_others_still_show(error):
    bad, good = raising(error), says(label="Good")
    domains = asking(bad=bad, good=good)

    shown = domains.shown(view(), None, FACTS)

    assert shown.display is not None
    assert (shown.display.label, shown.display.domains) == ("Good", ("good",))


def test_one_that_raises_is_asked_no_more_for_that_session_but_for_others():
    bad = raising(ValueError("x"))
    domains = asking(bad=bad)

    for name in ("s1", "s1", "s2"):
        assert domains.shown(view(name=name), None, FACTS).display is None

    assert bad.sessions == ["s1", "s2"]


def test_a_fault_is_told_once_with_its_place_and_without_its_text(caplog):
    domains = asking(bad=raising(ValueError("the customer's secret")))

    with caplog.at_level(logging.WARNING):
        for name in ("s1", "s2", "s3"):
            domains.shown(view(name=name), None, FACTS)

    (line,) = caplog.messages
    assert domains.notes == [line]
    assert "Domain bad fails" in line
    assert "ValueError at test_domains.py:" in line
    assert "secret" not in line


def test_a_stop_by_the_keyboard_is_no_fault_of_a_domain():
    with pytest.raises(KeyboardInterrupt):
        asking(bad=raising(KeyboardInterrupt())).shown(view(), None, FACTS)


# One that is slow.


def taking(clock: Ticks, *seconds: float) -> Asked:
    """Its calls take so long, the last for ever after."""
    left = list(seconds)

    def answer(_: object) -> Display:
        clock.now += left.pop(0) if len(left) > 1 else left[0]
        return Display(label="Late")

    return Asked(answer)


def test_one_that_takes_too_long_is_left_out_for_that_session_and_told(caplog):
    clock = Ticks()
    slow = taking(clock, LIMIT_S * 2)
    domains = asking(clock, slow=slow)

    with caplog.at_level(logging.WARNING):
        assert domains.shown(view(), None, FACTS).display is None
        assert domains.shown(view(title="new"), None, FACTS).display is None

    assert slow.sessions == ["s1", "s1"]  # tried twice at first, then no more
    (line,) = caplog.messages
    assert "it took 10 ms, 5 are allowed" in line


def test_one_pause_of_the_machine_is_no_fault():
    clock = Ticks()
    domains = asking(clock, once=taking(clock, 0.7, LIMIT_S / 2))

    shown = domains.shown(view(), None, FACTS)

    assert shown.display is not None
    assert domains.notes == []


def test_one_that_stops_the_hub_for_long_is_switched_off_for_all(caplog):
    clock = Ticks()
    slow = taking(clock, 0.4)
    domains = asking(clock, slow=slow)

    with caplog.at_level(logging.WARNING):
        for number in range(100):
            domains.shown(view(name=f"s{number}"), None, FACTS)

    assert len(set(slow.sessions)) == 3
    assert "switched off" in domains.notes[1]
    assert len(caplog.messages) == 2


# What it may answer.

BAD: dict[str, Any] = {
    "a text": "Deploying",
    "a dict": {"label": "Deploying"},
    "a coroutine's like": iter(()),
    "a label of the wrong type": Display(label=7),  # type: ignore[arg-type]
    "a label that is too long": Display(label="x" * (LABEL_MAX + 1)),
    "an empty label": Display(label=" "),
    "two lines": Display(label="one\ntwo"),
    "a control": Display(label="\x1b[31mred"),
    "text turned round": Display(label="\u202eevil"),
    "a line separator": Display(label="one\u2028two"),
    "half a surrogate": Display(label="\ud83d"),
    "an icon with markup": Display(icon="x' onload='y"),
    "an icon of the wrong type": Display(icon=b"bot"),  # type: ignore[arg-type]
    "no urgency there is": Display(urgency_hint=0),
    "an urgency beyond the last": Display(urgency_hint=9),
    "a truth value for an urgency": Display(urgency_hint=True),
    "chips in a list": Display(chips=[Chip("x")]),  # type: ignore[arg-type]
    "too many chips": Display(chips=(Chip("x"),) * 5),
    "a chip that is none": Display(chips=("x",)),  # type: ignore[arg-type]
    "a chip that is too long": Display(chips=(Chip("x" * (CHIP_MAX + 1)),)),
    "a chip of two lines": Display(chips=(Chip("a\rb"),)),
    "a chip of the wrong type": Display(chips=(Chip(None),)),  # type: ignore[arg-type]
    "an unknown tone": Display(chips=(Chip("x", "pink"),)),  # type: ignore[arg-type]
    "a tone that cannot be looked up": Display(chips=(Chip("x", []),)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
def test_what_is_out_of_bounds_is_a_fault_of_the_domain(answer):
    domains = asking(bad=Asked(lambda _: answer))

    shown = domains.shown(view(), None, FACTS)

    assert shown.display is None
    (note,) = domains.notes
    assert note.startswith("Domain bad fails")
    assert note.isprintable()
    msgspec.json.encode(shown)


def test_a_subclass_that_lies_is_no_display():
    class Lying(Display, frozen=True):
        pass

    class Text(str):
        __slots__ = ()

    for answer in (Lying(label="x"), Display(label=Text("x"))):
        with pytest.raises(BadDisplayError):
            check(answer)


def test_what_is_just_within_bounds_is_taken():
    chips = tuple(Chip("x" * CHIP_MAX, tone) for tone in ("plain", "good", "warning", "bad"))

    check(Display(label="é" * LABEL_MAX, icon="a-1", urgency_hint=8, chips=chips))


def test_a_domain_cannot_change_what_it_is_given():
    payload = {"command": "rm -rf build"}
    core = view(
        "needs_permission",
        {"tool": "Bash"},
        requests=(RequestView("r", "permission", 1, payload=payload),),
    )

    def tamper(session: Any) -> None:
        session.state.context["tool"] = "harmless"
        session.requests[0].payload["command"] = "ls"

    asking(bad=Asked(tamper)).shown(core, None, FACTS)

    assert core.state.context == {"tool": "Bash"}
    assert payload == {"command": "rm -rf build"}


def test_the_contract_has_the_version_that_plugins_name():
    """Raising it breaks every plugin there is: then it is meant."""
    assert API_VERSION == 1
    assert Display.__struct_fields__ == ("label", "icon", "urgency_hint", "chips")


def test_memory_of_faults_is_bounded(monkeypatch):
    monkeypatch.setattr(sys.modules[Domains.__module__], "LEFT_OUT_MAX", 3)
    bad = raising(ValueError())
    domains = asking(bad=bad)

    for name in ("a", "b", "c", "d", "a", "d"):
        domains.shown(view(name=name), None, FACTS)

    assert bad.sessions == ["a", "b", "c", "d", "a"]
