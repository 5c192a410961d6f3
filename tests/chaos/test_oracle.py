"""The oracle itself: each way to lie to it is found, and nothing but a lie is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.chaos.ledger import Ledger, Outcome, Source
from tests.chaos.oracle import Allowed, Finding, Shown, judge

S = "A-s1"


class Told:
    """A ledger of one host, A, and what two hubs show of it."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.tapes: dict[str, list[str]] = {}
        self.incomplete: set[str] = set()
        self.clock = 0.0

    def send(
        self,
        *ids: str,
        outcome: Outcome = "ok",
        source: Source = "hook",
        session: str = S,
    ) -> None:
        """Each in a piece of its own."""
        for name in ids:
            self.clock += 1
            for each in self.ledger.send([name], session, source, "A", self.clock):
                each.outcome, each.done = outcome, self.clock

    def send_together(self, *ids: str, outcome: Outcome = "ok") -> None:
        self.clock += 1
        for each in self.ledger.send(list(ids), S, "story", "A", self.clock):
            each.outcome, each.done = outcome, self.clock

    def show(self, *ids: str, session: str = S) -> None:
        self.tapes[session] = list(ids)

    def findings(self, excuse: Allowed | None = None) -> list[Finding]:
        shown = {name: Shown(self.tapes, self.incomplete) for name in ("h1", "h2")}
        return judge(self.ledger.streams, shown, {"A": excuse or Allowed()})

    def kinds(self, excuse: Allowed | None = None) -> list[str]:
        return [finding.kind for finding in self.findings(excuse) if finding.where != "h2 A-s1"]


@pytest.fixture
def told() -> Told:
    return Told()


def test_all_once_and_in_order_is_no_finding(told: Told) -> None:
    told.send("h1", "h2", "h3")
    told.send("l1", "l2", source="line")
    told.show("h1", "l1", "h2", "l2", "h3")

    assert not told.findings()


@pytest.mark.parametrize(
    ("tape", "kind", "what"),
    [
        (["h1", "h3"], "lost", "h2"),
        (["h1", "h2"], "lost", "h3"),
        ([], "lost", "h1"),
        (["h1", "h2", "h2", "h3"], "doubled", "h2, 2 times"),
        (["h1", "h2", "h3", "h1"], "doubled", "h1, 2 times"),
        (["h2", "h1", "h3"], "swapped", "h2 before"),
        (["h1", "h2", "h3", "h9"], "extra", "h9"),
    ],
)
def test_each_lie_about_three_hooks_is_found(
    told: Told, tape: Sequence[str], kind: str, what: str
) -> None:
    told.send("h1", "h2", "h3")
    told.show(*tape)

    found = told.findings()

    assert {finding.kind for finding in found} == {kind}
    assert {finding.where.split()[0] for finding in found} == {"h1", "h2"}  # both hubs are judged
    if kind != "swapped":
        assert found[0].what == what


def test_a_swap_is_found_whichever_two_it_is(told: Told) -> None:
    told.send("h1", "h2", "h3", "h4")
    for tape in (["h2", "h1", "h3", "h4"], ["h1", "h2", "h4", "h3"], ["h4", "h2", "h3", "h1"]):
        told.show(*tape)
        assert "swapped" in told.kinds()


def test_a_session_that_no_hub_shows_is_lost_whole(told: Told) -> None:
    told.send("h1", session="A-other")

    assert told.kinds() == ["lost", "lost"]


def test_a_session_of_which_nothing_was_sent_is_extra(told: Told) -> None:
    told.show("h7", session="A-ghost")

    assert "extra" in told.kinds()


def test_what_was_refused_is_never_applied(told: Told) -> None:
    told.send("h1")
    told.send("h2", outcome="refused")
    told.show("h1")
    assert not told.findings()

    told.show("h1", "h2")
    assert told.kinds() == ["refused"]


def test_what_nobody_answered_is_applied_once_or_not_at_all(told: Told) -> None:
    told.send("h1")
    told.send("h2", outcome="unknown")
    told.send("h3")
    for tape in (["h1", "h3"], ["h1", "h2", "h3"], ["h1", "h3", "h2"]):
        told.show(*tape)
        assert not told.findings()

    told.show("h1", "h2", "h3", "h2")
    assert told.kinds() == ["doubled"]
    told.show("h2", "h1", "h3")  # h1 had its answer before h2 was sent
    assert told.kinds() == ["swapped"]


def test_half_of_a_piece_is_torn(told: Told) -> None:
    told.send_together("r1", "r2", outcome="unknown")
    told.show("r1", "r2")
    assert not told.findings()
    told.show()
    assert not told.findings()

    told.show("r1")
    assert told.kinds() == ["torn"]


def test_two_hubs_that_differ_are_found_though_each_alone_is_possible(told: Told) -> None:
    told.send("h1")
    told.send("h2", outcome="unknown")
    shown = {
        "h1": Shown({S: ["h1"]}, set()),
        "h2": Shown({S: ["h1", "h2"]}, set()),
    }

    assert [f.kind for f in judge(told.ledger.streams, shown, {})] == ["apart"]


def test_hubs_that_call_different_hosts_incomplete_are_found(told: Told) -> None:
    told.send("h1")
    shown = {"h1": Shown({S: ["h1"]}, {"A"}), "h2": Shown({S: ["h1"]}, set())}

    kinds = [f.kind for f in judge(told.ledger.streams, shown, {"A": Allowed(gap=True)})]

    assert kinds == ["apart"]


def test_a_loss_that_the_fault_allows_must_be_told(told: Told) -> None:
    told.send("h1", "h2", "h3")
    told.show("h1", "h3")
    excuse = Allowed(lost=[(0.0, 2.5)], gap=True)
    assert told.kinds(excuse) == ["silent loss"]

    told.incomplete = {"A"}
    assert not told.findings(excuse)


def test_a_loss_of_which_nobody_else_can_know_is_not_told(told: Told) -> None:
    told.send("h1", "h2", "h3", "h4")
    told.show("h1", "h4")
    of_both = Allowed(lost=[(1.5, 3.5)])
    assert not told.findings(of_both)

    told.show("h1", "h3", "h4")  # so it is known that numbers of that time were given out
    assert told.kinds(of_both) == ["silent loss"]


def test_a_loss_after_the_fault_is_a_loss_though_the_host_is_called_incomplete(told: Told) -> None:
    told.send("h1", "h2", "h3")
    told.incomplete = {"A"}
    told.show("h1", "h2")

    assert told.kinds(Allowed(lost=[(0.0, 2.5)], gap=True)) == ["lost"]


def test_a_host_that_lost_nothing_is_not_to_be_called_incomplete(told: Told) -> None:
    told.send("h1")
    told.show("h1")
    told.incomplete = {"A"}

    assert told.kinds() == ["false gap", "false gap"]
    assert not told.findings(Allowed(gap=True))


def test_only_lines_may_be_repeated_and_only_where_that_is_allowed(told: Told) -> None:
    told.send("l1", source="line")
    told.send("h1")
    told.show("l1", "h1", "l1")
    assert told.kinds() == ["doubled"]
    assert not told.findings(Allowed(repeat_lines=True))

    told.show("l1", "h1", "h1")
    assert told.kinds(Allowed(repeat_lines=True)) == ["doubled"]


def test_what_was_forged_may_be_applied_once_anywhere_and_never_twice(told: Told) -> None:
    told.send("h1")
    told.send("x1", source="forged", outcome="unknown")
    for tape in (["h1"], ["x1", "h1"], ["h1", "x1"]):
        told.show(*tape)
        assert not told.findings()

    told.show("x1", "h1", "x1")
    assert told.kinds() == ["doubled"]
