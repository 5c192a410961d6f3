"""One file for the settings of all parts: a name that none of them knows is told, and none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from adsum.config import UpSettings, read_settings
from adsum.outcome import CommandError, Exit
from adsum_collector.settings import CollectorSettings
from adsum_hub.settings import HubSettings
from adsum_shared.settings import KNOWN, TABLES, ConfigError, require_known


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("adsum_shared.settings.user_config_path", lambda _: tmp_path)
    return tmp_path / "config.toml"


def test_what_is_known_is_what_the_parts_have() -> None:
    parts = (UpSettings, CollectorSettings, HubSettings)

    assert {name for part in parts for name in part.model_fields} | {"control"} == KNOWN
    assert TABLES <= KNOWN


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[[budget]]", "[[budgets]]"),
        ("[[channels]]", "[[channel]]"),
        ("Hub_port = 1", "`hub_port`"),
    ],
)
def test_a_slip_of_the_pen_is_told_with_the_nearest_name(
    config: Path, written: str, meant: str
) -> None:
    config.write_text(f"{written}\n")

    for part in (UpSettings, CollectorSettings, HubSettings):
        with pytest.raises(CommandError) as found:
            read_settings(part)
        name = written.strip("[]").split(" ", 1)[0]
        assert str(found.value) == f"{config}: there is no setting `{name}`. Did you mean {meant}?"
        assert found.value.code is Exit.USAGE


def test_a_name_that_is_like_no_other_is_told_as_well(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no setting `zzz`\. Remove it"):
        require_known(config, ["zzz", "notify"])


def test_what_is_written_for_another_part_is_no_fault(config: Path) -> None:
    config.write_text("hub_port = 1\ncollector_port = 2\nbroker_memory_mb = 16\n[[channel]]\n")

    assert read_settings(CollectorSettings).collector_port == 2


def test_a_bad_budget_is_told_in_its_own_words(config: Path) -> None:
    config.write_text('[[budgets]]\nscope = "team"\nusd = 5\nper = "year"\n')

    with pytest.raises(
        CommandError, match=r"^\[\[budgets\]\] 1: no value .* `per`. Write one of ses"
    ):
        read_settings(HubSettings)


def test_an_authority_is_named_in_the_url_itself(config: Path) -> None:
    ca = config.with_name("ca.pem")
    config.write_text(f'redis_url = "rediss+cluster://h:1"\nredis_ca = "{ca}"\n')

    assert str(ca).replace("/", "%2F") in (CollectorSettings().redis_url or "")


@pytest.mark.parametrize("url", ["redis://u:s3cr@h", "redis+sentinel://h/m"])
def test_an_authority_without_tls_would_pin_nothing_and_is_refused(config: Path, url: str) -> None:
    config.write_text(f'redis_url = "{url}"\nredis_ca = "ca.pem"\n')

    with pytest.raises(ConfigError, match=r"redis_ca .*asks for no TLS.*rediss") as refused:
        CollectorSettings()

    assert "s3cr" not in str(refused.value)


def test_an_authority_means_nothing_to_the_embedded_broker(config: Path) -> None:
    config.write_text('redis_ca = "ca.pem"\n')

    assert CollectorSettings().redis_url is None
    assert CollectorSettings(redis_url="unix:///run/b.sock").redis_url == "unix:///run/b.sock"
