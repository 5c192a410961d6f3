"""The way through the hub, as the command line chooses, keeps and shows it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

import adsum.doctor.checks as doctor_module
import adsum.machine as way_module
from adsum.config import show_config
from adsum.doctor.checks import check_way
from adsum.machine import (
    Hub,
    Membership,
    RefusedError,
    Way,
    choose_way,
    keep,
    membership,
    signals_go,
    wished_way,
)
from adsum.outcome import CommandError
from adsum.text.tables import host_notes
from adsum_collector.delivery.transports import HubPlace
from adsum_collector.errors import HubError
from adsum_collector.settings import CollectorSettings
from adsum_shared.host_keys import KeysReply, KeysRequest
from adsum_shared.state import HostView

SECRET = "adsum_machine_the-secret"
NOWHERE = "redis://user:hidden@127.0.0.1:1"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADSUM_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ADSUM_REDIS_URL", raising=False)
    return tmp_path


def through_hub(state: Path) -> None:
    keep(state, Membership("https://hub", "h", "oak", "", SECRET, "/ca.pem", via="ingest"))


class Asking(Hub):
    """A hub that notes what it is asked, and refuses it with a status if it is to."""

    def __init__(self, refusal: int = 0) -> None:
        super().__init__("http://127.0.0.1:1")
        self.refusal = refusal
        self.asked: list[str] = []

    def ask(self, path: str, told: dict[str, Any] | None = None) -> Any:
        self.asked.append(path)
        if self.refusal:
            raise RefusedError("no such thing", self.refusal)
        return {}


def test_what_joining_gave_leads_the_collector_through_the_hub(state: Path) -> None:
    through_hub(state)

    flag = CollectorSettings(redis_url="redis://r:1")

    assert signals_go(CollectorSettings()) == (None, HubPlace("https://hub", SECRET, "/ca.pem"))
    assert signals_go(flag) == ("redis://r:1", None)  # it comes before what joining gave


def test_a_machine_that_joined_before_there_was_another_way_goes_on_to_redis(state: Path) -> None:
    older = {"hub": "https://hub", "host_id": "h", "label": "oak", "secret": SECRET}
    (state / "machine.json").write_text(json.dumps({**older, "redis_url": "redis://r:1"}))

    assert signals_go(CollectorSettings()) == ("redis://r:1", None)
    kept = membership(state)
    assert kept is not None
    assert kept.ingest is None


def test_where_the_hub_says_so_redis_is_not_even_tried() -> None:
    hub = Asking()
    answer = {"way": "ingest", "redis_url": "", "host_id": "h", "why": "It was asked for."}

    assert choose_way(hub, answer, "auto") == (None, "through the hub. It was asked for.")
    assert hub.asked == []


def test_a_redis_that_cannot_be_used_leads_through_the_hub_which_is_told() -> None:
    hub = Asking()

    url, words = choose_way(hub, {"way": "acl", "redis_url": NOWHERE, "host_id": "h"}, "auto")

    assert url is None
    assert "redis://127.0.0.1:1 cannot be used from here (" in words
    assert "hidden" not in words
    assert hub.asked == ["/api/v1/machine/ingest"]


@pytest.mark.parametrize(("via", "refusal"), [("redis", 0), ("auto", 404), ("ingest", 0)])
def test_a_redis_that_was_asked_for_or_an_older_hub_ends_the_joining(
    via: Way, refusal: int
) -> None:
    answer = {"way": "acl", "redis_url": NOWHERE, "host_id": "h"}

    with pytest.raises(CommandError, match="--via ingest"):
        choose_way(Asking(refusal), answer, via)


STRANGER = "certificate verify failed: unable to get local issuer certificate"
EXPIRED = "certificate verify failed: certificate has expired"
TLS = {"way": "acl", "redis_url": "rediss://u:hidden@r", "host_id": "h"}
PINNED = f"{TLS['redis_url']}?ssl_ca_certs=%2Fca.pem"


def redis_that(monkeypatch: pytest.MonkeyPatch, **failing: str) -> list[str]:
    """The URLs that are looked at. pinned, plain: what each fails by."""
    looked: list[str] = []

    def look(url: str, _host_id: str) -> None:
        looked.append(url)
        if why := failing.get("pinned" if "ssl_ca_certs" in url else "plain"):
            raise RedisConnectionError(f"Error 1 connecting to r:6379. [SSL] {why} (_ssl.c:1)")

    monkeypatch.setattr(way_module, "_look", look)
    return looked


def test_an_authority_of_ones_own_counts_alone_where_it_signed_for_redis_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = redis_that(monkeypatch)

    assert choose_way(Asking(), TLS, "auto", "/ca.pem")[0] == PINNED
    assert looked == [PINNED]


def test_a_redis_by_a_public_authority_is_reached_beside_a_hub_by_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked, hub = redis_that(monkeypatch, pinned=STRANGER), Asking()

    url, words = choose_way(hub, TLS, "auto", "/ca.pem")

    assert (url, looked, hub.asked) == (TLS["redis_url"], [PINNED, TLS["redis_url"]], [])
    assert words == "to Redis at rediss://r:6379, which is reached from here"


@pytest.mark.parametrize(
    ("failing", "words", "looks"),
    [
        ({"pinned": STRANGER, "plain": STRANGER}, "give --ca a file that holds that authority", 2),
        ({"pinned": STRANGER, "plain": EXPIRED}, "that has expired. Renew it there", 2),
        ({"pinned": EXPIRED}, "that has expired. Renew it there", 1),
    ],
)
def test_a_redis_that_is_refused_for_its_certificate_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, failing: dict[str, str], words: str, looks: int
) -> None:
    looked = redis_that(monkeypatch, **failing)

    url, said = choose_way(Asking(), TLS, "auto", "/ca.pem")

    assert (url, len(looked)) == (None, looks)
    assert said.startswith(
        "through the hub. Redis at rediss://r:6379 is refused for its certificate"
    )
    assert words in said
    assert ".." not in said
    assert "hidden" not in said
    with pytest.raises(CommandError, match="refused for its certificate"):
        choose_way(Asking(), TLS, "redis", "/ca.pem")


def test_a_way_that_there_is_none_is_named() -> None:
    assert wished_way("auto") == "auto"
    with pytest.raises(CommandError, match="auto, redis or ingest, not 'carrier'"):
        wished_way("carrier")


def line_that(outcome: HubError | None) -> Any:
    class Line:
        async def ask(self, host_id: str, asked: KeysRequest) -> KeysReply:
            assert (host_id, asked) == ("h", KeysRequest(want=True))
            if outcome is not None:
                raise outcome
            return KeysReply()

    class Transport:
        def __init__(self, _: HubPlace) -> None: ...

        @contextlib.asynccontextmanager
        async def open(self) -> AsyncIterator[Line]:
            yield Line()

    return Transport


@pytest.mark.parametrize(
    ("outcome", "result", "words", "fix"),
    [
        (None, "ok", "Signals go through the hub at https://hub", None),
        (
            HubError("The certificate of hub has expired. Renew it; or is the clock wrong?"),
            "fail",
            "has expired.",
            "Renew it",
        ),
    ],
)
def test_the_doctor_looks_at_the_way_that_signals_go(
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    outcome: HubError | None,
    result: str,
    words: str,
    fix: str | None,
) -> None:
    through_hub(state)
    monkeypatch.setattr(doctor_module, "HubTransport", line_that(outcome))

    found = check_way(None, state)

    assert (found.id, found.result) == ("ingest", result)
    assert words in found.what + (found.fix or "")
    assert (fix or "") in found.what + (found.fix or "")


def test_the_doctor_looks_at_redis_where_there_is_no_other_way(state: Path) -> None:
    assert check_way(None, state).id == "redis"


def test_the_settings_say_where_signals_go(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    through_hub(state)
    show_config({}, origin=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["joined"] == {
        "hub": "https://hub",
        "way": "through the hub",
    }
    keep(state, Membership("https://hub", "h", "oak", "redis://u:secret@r:1", SECRET))
    show_config({}, origin=False, as_json=False)
    said = capsys.readouterr().out
    assert "Joined https://hub; signals go to Redis at redis://r:1." in said
    assert "secret@" not in said


def test_the_list_of_machines_says_which_come_through_a_hub() -> None:
    through = HostView("h", "oak", "live", 0, via="hub")
    straight = HostView("h", "oak", "live", 0)

    assert any(note.startswith("via hub") for note, _ in host_notes(through, 0))
    assert not any("via hub" in note for note, _ in host_notes(straight, 0))
