"""What a machine's owner agreed to, until when, and whose keys count."""

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum_collector.control.consent import FILE, Consent, LiveConsent, keep_consent, read_consent
from tests.control import consent_to

KEY = Ed25519PrivateKey.generate()


def test_what_nobody_agreed_to_is_off(tmp_path: Path) -> None:
    assert read_consent(tmp_path) == Consent()
    consent_to(tmp_path, KEY)
    assert read_consent(tmp_path).at(time.time()) == "approve"

    (tmp_path / FILE).chmod(0o644)
    assert read_consent(tmp_path) == Consent()
    (tmp_path / FILE).chmod(0o600)
    (tmp_path / FILE).write_bytes(b'{"level": "approve"')
    assert read_consent(tmp_path) == Consent()
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert read_consent(tmp_path) == Consent()


@pytest.mark.parametrize(
    ("wall", "level"), [(99.0, "off"), (100.0, "approve"), (199.0, "approve"), (200.0, "off")]
)
def test_consent_has_an_end_and_a_clock_set_back_ends_it(wall: float, level: str) -> None:
    assert Consent("approve", 100.0, 200.0, {"k": "x"}).at(wall) == level


def test_it_ends_while_the_collector_runs_whatever_the_clock_on_the_wall_says(
    tmp_path: Path,
) -> None:
    now = {"wall": 100.0, "timer": 5.0}
    consent = LiveConsent(tmp_path, wall=lambda: now["wall"], timer=lambda: now["timer"])
    keep_consent(tmp_path, Consent("approve", 100.0, 160.0, {"k": "x"}))
    assert consent.level == "approve"

    now["timer"] = 65.0

    assert consent.level == "off"


def test_keys_count_under_their_own_ids_alone(tmp_path: Path) -> None:
    consent_to(tmp_path, KEY)
    (name,) = read_consent(tmp_path).public_keys()
    stranger = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()

    assert not Consent(keys={name: stranger}).public_keys()
    assert Consent("approve", keys={}).at(0.0) == "off"
