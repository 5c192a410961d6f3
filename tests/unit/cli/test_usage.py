"""Which days are asked for, and what is said of days that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from adsum.client import typed
from adsum.listing import Freshness, UsageQuery, no_usage
from adsum.outcome import CommandError, Exit
from adsum_shared.state import HubTrouble, ScanProgress, UsageReport, UsageView
from tests.hubs import NOW, host, report

DAY = 86_400_000


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        ({}, {"days": "7"}),
        ({"days": 30}, {"days": "30"}),
        ({"since": "2026-11-01"}, {"since": "2026-11-01"}),
        ({"until": "2026-11-22"}, {"since": "2026-11-16", "until": "2026-11-22"}),
        ({"until": "2026-03-01", "days": 2}, {"since": "2026-02-28", "until": "2026-03-01"}),
        (
            {"since": "2026-11-22", "until": "2026-11-22"},
            {"since": "2026-11-22", "until": "2026-11-22"},
        ),
        ({"until": "0001-01-02", "days": 400}, {"since": "0001-01-01", "until": "0001-01-02"}),
        ({"host": "a", "project": "b", "model": "c"}, None),
    ],
)
def test_days_are_asked_for_as_the_hub_takes_them(
    asked: dict[str, Any], query: dict[str, str] | None
) -> None:
    assert UsageQuery(**asked).query == {"by": "day", **(query or {"days": "7", **asked})}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"since": "yesterday"}, "--since 'yesterday' is no day"),
        ({"since": "2026-02-30"}, "'2026-02-30' is no day"),
        ({"until": "20261122"}, "--until '20261122' is no day. It looks like 2026-11-22"),
        ({"until": "2026-W47-7"}, "is no day"),
        ({"since": ""}, "--since '' is no day"),
        ({"since": "99999-01-01"}, "is no day"),
        ({"since": "2026-11-22", "until": "2026-11-21"}, "is after --until 2026-11-21"),
        ({"since": "2026-11-22", "days": 3}, "--since and --days exclude each other"),
        ({"limit": 5}, "--limit goes with --by session"),
        ({"by": "week"}, "--by is one of day, host, project, model, agent, session"),
    ],
)
def test_days_that_cannot_be_are_a_usage_error(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words) as wrong:
        UsageQuery(**asked)
    assert wrong.value.code is Exit.USAGE


def test_an_answer_that_is_no_report_is_no_hubs() -> None:
    for answer in ({}, [], {"schema": 1, "rows": 3}):
        with pytest.raises(CommandError, match="not as a hub of Adsum") as wrong:
            typed("http://h", answer, UsageReport)
        assert wrong.value.code is Exit.UNREACHABLE


@pytest.mark.parametrize(
    ("asked", "hosts", "words"),
    [
        (
            UsageQuery(host="x"),
            [host()],
            "Nothing matches from 2025-11-18 to 2025-11-24. All of it",
        ),
        (UsageQuery(), [], "adsum up"),
        (UsageQuery(), [host()], "Further back: `adsum usage --days 90`"),
        (UsageQuery(days=90), [host()], "adsum usage --days 90"),
        (UsageQuery(until="2025-11-24", days=7), [host()], "--days 90 --until 2025-11-24"),
    ],
)
def test_nothing_to_show_says_what_to_do_next(asked: UsageQuery, hosts: Any, words: str) -> None:
    assert words in no_usage(report(), asked, Freshness(hosts, NOW))


def test_a_machine_that_is_not_live_makes_a_report_partial(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fresh = Freshness([host("desk", "late"), host()], NOW)
    assert fresh.warn() is Exit.PARTIAL
    assert capsys.readouterr().err == (
        "adsum: desk is late, last seen 4m ago: what came later is missing.\n"
    )


def test_of_days_before_a_machine_was_last_seen_nothing_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Last month's bill is whole although a laptop sleeps today."""
    fresh = Freshness([host("desk", "offline")], NOW)
    assert fresh.warn("2025-11-20") is Exit.OK
    assert fresh.warn("2025-11-30") is Exit.PARTIAL
    assert capsys.readouterr().err.count("desk") == 1


@pytest.mark.parametrize(
    ("scan", "share"),
    [
        (ScanProgress(2, 1, 100, 42, 9, 20.4), "42"),
        (ScanProgress(2, 2, 100, 100, 9, 0), "99"),
        (ScanProgress(0, 0, 0, 0), "0"),
    ],
)
def test_a_machine_that_still_reads_its_history_is_told_of(
    scan: ScanProgress, share: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Freshness([host(scan=scan)], NOW).warn() is Exit.OK
    assert capsys.readouterr().err == f"adsum: laptop still reads its history: {share} % so far.\n"


def test_what_the_hub_says_of_a_history_is_not_said_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = [host(scan=ScanProgress(2, 1, 100, 42)), host("desk", scan=ScanProgress(2, 1, 100, 42))]
    Freshness(both, NOW).warn(notes=["laptop still reads its history: 42 % so far."])
    assert capsys.readouterr().err.count("still reads") == 1


def test_a_hub_in_trouble_owns_up(capsys: pytest.CaptureFixture[str]) -> None:
    fresh = Freshness([host()], NOW, HubTrouble("Gone. Start it.", NOW, blind=True))
    assert fresh.warn() is Exit.PARTIAL
    assert "stands still" in capsys.readouterr().err


def test_further_back_is_never_a_question_that_was_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(first: str, last: str, **asked: Any) -> str:
        empty = UsageReport(1, NOW, first, last, "day", [], UsageView(), [])
        return no_usage(empty, UsageQuery(**asked), Freshness([host()], NOW))

    month = said("2025-06-02", "2025-07-01", until="2025-07-01", days=30)
    assert month.endswith("Further back: `adsum usage --days 90 --until 2025-07-01`")
    assert said("2025-08-27", "2025-11-24", days=90).endswith("`adsum usage --days 400`")
    assert said("2024-10-21", "2025-11-24", days=400).endswith("adsum hosts")
    assert said("2020-01-01", "2020-01-07", until="2020-01-07").endswith("adsum hosts")
    assert said("2025-11-24", "2025-11-24", days=1).startswith("Nothing was used on 2025-11-24. ")


@pytest.mark.parametrize("scan", [ScanProgress(0, 0, 0, 0), ScanProgress(2, 2, 100, 100)])
def test_nothing_is_said_to_be_unused_while_a_machine_still_counts(scan: ScanProgress) -> None:
    empty = UsageReport(1, NOW, "2025-11-24", "2025-11-24", "day", [], UsageView(), [])
    said = no_usage(empty, UsageQuery(days=1), Freshness([host(), host("desk", scan=scan)], NOW))
    assert said == "Still counting: nothing is added up yet. How far it is: adsum hosts"


def test_prices_that_cannot_be_used_are_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    prices = "Your own prices are not used. Correct them."
    channel = "Channel `mail` keeps failing."
    fresh = Freshness([host()], NOW, HubTrouble(prices, NOW))
    assert fresh.warn(notes=[prices]) is Exit.PARTIAL
    assert capsys.readouterr().err == ""
    both = Freshness([host()], NOW, HubTrouble(f"{prices} {channel}", NOW))
    both.warn(notes=[prices])
    err = capsys.readouterr().err
    assert err.endswith(f": {channel}\n")
    assert "prices" not in err
