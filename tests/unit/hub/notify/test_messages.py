"""What is said, how often, and where to: words, paces, what is pending, and endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum_hub.notify.messages import MOST_CHARS, MOST_LINES, message_of
from adsum_hub.notify.push import (
    PushKeyError,
    PushKeyFile,
    _seconds,
    require_endpoint,
)
from adsum_hub.notify.rules import (
    BURST,
    EVERY_MS,
    MOST_AGAIN_MS,
    Case,
    Decision,
    Pending,
    Throttle,
)
from adsum_hub.rest.api import BadRequestError
from tests.hubs import NOW


def case(
    key: str = "h:s", state: str = "needs_permission", stamp: int = NOW, **more: object
) -> Case:
    fields = {"on": "needs_you", "host": "laptop", "host_id": "h", "urgency": 1, "since": NOW}
    return Case(**{**fields, "key": key, "state": state, "stamp": stamp, **more})


# --- words


def test_a_state_of_tomorrow_is_told_by_its_name_and_a_sentence_is_not():
    assert message_of([case(state="needs_coffee")], "none").title == "Needs coffee"
    assert message_of([case(state="needs rm -rf /home")], "none").title == "Needs you"


def test_a_digest_counts_what_needs_somebody_and_what_is_done():
    cases = [case("a"), case("b"), case("c", "task_complete", on="delivered", urgency=9)]

    found = message_of(cases, "none")
    assert found.title == "2 agents need you, 1 agent is done"
    assert found.body == "Needs permission: laptop (2)\nFinished: laptop"
    assert found.id is None


def test_another_agent_than_the_usual_one_is_named():
    one, other = case("a", called="Codex", project="web", title="Fix"), case("b")

    assert message_of([one], "none").body == "Codex on laptop"
    assert message_of([one], "title").body == "Fix\nCodex · web · laptop"
    assert message_of([one, other], "none").body.splitlines() == [
        "Needs permission: Codex on laptop",
        "Needs permission: laptop",
    ]
    assert "Fix · Codex · web · laptop" in message_of([one, other], "title").body


def test_a_digest_names_the_most_urgent_first_and_not_all():
    cases = [case(str(n), "idle", urgency=7, host=f"h{n}") for n in range(20)]

    lines = message_of([*cases, case("x")], "none").body.splitlines()
    assert lines[0] == "Needs permission: laptop"
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "and 13 more"


def test_a_message_holds_no_secret():
    secret = "Pl4ntedS3cret"
    cases = [case("a", title=f"Run mysql -p{secret}"), case("b", label=f"Run curl -u me:{secret}")]

    for some in (cases, cases[:1], cases[1:]):
        message = message_of(some, "title")
        assert secret not in message.title + message.body
        assert "[redacted:argument]" in message.title + message.body


def test_a_title_of_any_length_or_shape_stays_one_short_line():
    told = message_of([case(title="a\nb\t" + "c" * 10_000, label="x" * 10_000)], "title")

    assert all(len(line) <= MOST_CHARS for line in [told.title, *told.body.splitlines()])
    assert told.body.startswith("a b c")
    assert len(told.body.splitlines()) == 2


@pytest.mark.parametrize(
    ("more", "urgency"),
    [
        ({}, "high"),
        ({"urgency": 7}, "normal"),
        ({"on": "delivered", "urgency": 9}, "low"),
        ({"on": "host_offline", "urgency": 9}, "normal"),
    ],
)
def test_a_phone_is_woken_only_where_somebody_is_kept_waiting(
    more: dict[str, object], urgency: str
):
    assert message_of([case(**more)], "none").urgency == urgency


# --- paces


def test_a_few_messages_go_at_once_and_then_one_in_a_while():
    pace = Throttle()
    for _ in range(BURST):
        assert pace.free_at(NOW) == NOW
        pace.spent(NOW)

    assert pace.free_at(NOW) == NOW + EVERY_MS
    assert pace.free_at(NOW + EVERY_MS) == NOW + EVERY_MS


def test_each_failure_in_a_row_waits_longer_and_a_success_forgets_them():
    pace = Throttle()
    waits = [pace.failed(NOW, None) - NOW for _ in range(12)]

    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (5_000, MOST_AGAIN_MS)
    pace.spent(NOW)
    assert pace.failed(NOW, None) == NOW + 5_000


def test_a_pause_that_is_asked_for_is_kept():
    assert Throttle().failed(NOW, 3600.0) == NOW + 3_600_000


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 5),
        ("120", 120),
        ("1", 5),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 60),
        ("soon", 5),
        ("-3", 5),
        ("9" * 400, 86_400),
    ],
)
def test_retry_after_is_seconds_or_a_date_or_nonsense(header: str | None, seconds: int):
    now = 1_792_567_620_000  # a minute before that date

    assert _seconds(header, now) == seconds


# --- pending


def test_a_need_that_was_answered_leaves_nothing_behind():
    pending = Pending()
    pending.enter(case(), Decision({"push": NOW + 5}))
    pending.leave("h:s")

    assert pending.take("push", NOW + 5) == []
    assert pending.next("push") is None


def test_another_need_of_the_same_session_takes_the_firsts_place():
    pending = Pending()
    pending.enter(case(), Decision({"push": NOW + 5}))
    pending.enter(case(state="error", stamp=NOW + 1), Decision({"push": NOW + 9}, cancelled=True))

    assert pending.take("push", NOW + 8) == []
    assert [each.state for each in pending.take("push", NOW + 9)] == ["error"]


def test_the_latest_words_are_told():
    pending = Pending()
    pending.enter(case(), Decision({"push": NOW}))
    pending.enter(case(title="Now named"), Decision())

    assert [each.title for each in pending.take("push", NOW)] == ["Now named"]


def test_what_is_put_off_after_it_has_passed_stays_away():
    pending = Pending()
    pending.enter(case(), Decision({"push": NOW}))
    (taken,) = pending.take("push", NOW)
    pending.enter(case(stamp=NOW + 1), Decision(cancelled=True))
    pending.put(taken, "push", NOW)

    assert pending.take("push", NOW) == []


def test_sessions_that_come_and_go_for_hours_before_anything_is_due_take_no_room():
    pending = Pending()
    for number in range(2_000):
        pending.enter(case(stamp=number), Decision({"push": NOW}, cancelled=True))
        if number % 2:
            pending.leave("h:s")

    assert len(pending) == len(pending.standing) == 0


# --- endpoints


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://fcm.googleapis.com/fcm/send/abc",
        "https://updates.push.services.mozilla.com/wpush/v2/abc",
        "https://web.push.apple.com:443/abc",
    ],
)
def test_public_push_services_are_taken(endpoint: str):
    require_endpoint(endpoint, private=False)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://fcm.googleapis.com/abc",
        "https://fcm.googleapis.com:8443/abc",
        "https://ann:pw@fcm.googleapis.com/abc",
        "https://localhost/abc",
        "https://redis/abc",
        "https://hub.internal/abc",
        "https://hub.local./abc",
        "https://127.0.0.1/abc",
        "https://127.1/abc",
        "https://0x7f000001/abc",
        "https://10.0.0.7/abc",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/abc",
        "https://[::ffff:10.0.0.1]/abc",
        "https://[2606:4700::1]/abc",
        "https://fcm.googleapis.com/abc#x",
        "https://fcm.googleapis.com/a b",
        "https://fcm.googleapis.com/\r\nhost: x",
        "https://fcm.googleapis.com:port/abc",
        "https://" + "a" * 3_000 + ".com/",
        "ftp://fcm.googleapis.com/abc",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_hub_posts_nowhere_but_to_public_push_services(endpoint: str):
    with pytest.raises(BadRequestError) as error:
        require_endpoint(endpoint, private=False)

    assert error.value.step


@pytest.mark.parametrize("contact", ["ann@example.org", "mailto:ann", "https://example.org", ""])
def test_a_contact_that_apple_would_refuse_is_refused(contact: str):
    with pytest.raises(PushKeyError, match="mailto:you@"):
        PushKeyFile(Path(), None, contact)


def test_a_mail_address_is_a_contact():
    PushKeyFile(Path(), None, "mailto:ann.b+x@mail.example.org")
    PushKeyFile(Path(), None, None)
