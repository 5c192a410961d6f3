"""What follows from the collector's settings."""

from __future__ import annotations

import pytest

from adsum_collector.settings import CollectorSettings


@pytest.mark.parametrize(
    ("given", "form_s", "timeout_s"),
    [
        ({}, 5, 310),
        ({"hold_form_s": 0}, 0, 10),
        ({"hold_form_s": 0.5}, 0.5, 310),
        ({"hold_form_s": 3_600}, 3_600, 3_610),
        ({"hold_form_s": 3_600, "hold_s": 2}, 2, 310),
    ],
)
def test_a_form_is_held_no_longer_than_other_requests_and_its_hook_hardly_longer(
    given: dict[str, float], form_s: float, timeout_s: int
) -> None:
    settings = CollectorSettings(**given)  # type: ignore[arg-type] # numbers

    assert (settings.form_s, settings.form_timeout_s) == (form_s, timeout_s)
