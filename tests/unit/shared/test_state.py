"""A name that nothing bears is said with those there are."""

from __future__ import annotations

from adsum_shared.state import unknown_name


def test_of_many_names_the_most_alike_are_given() -> None:
    said = unknown_name("host", "lab-7x", [f"box-{number}" for number in range(50)] + ["lab-7"])

    assert said.startswith("There is no host `lab-7x`; there are: lab-7, ")
    assert said.endswith(" and 43 more.")
    assert unknown_name("host", "x", []) == "There is no host `x`, nor any other yet."
    assert not unknown_name("host", "lab-7", ["lab-7"])
