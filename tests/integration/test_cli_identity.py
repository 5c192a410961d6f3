"""`adsum collector new-identity`: a copy of a machine joins as a machine of its own."""

from __future__ import annotations

import json
from pathlib import Path

from adsum_collector.state_dir import hold_lock, load_identity
from tests.integration.conftest import Run


def test_it_gives_this_machine_another_id_and_salt_and_says_what_becomes_of_the_rest(
    home: Path, run: Run
) -> None:
    old = load_identity(home / "state")

    code, out, err = run("collector", "new-identity")

    new = load_identity(home / "state")
    assert (code, err) == (0, "")
    assert new.host_id in out
    assert "joins as a new machine" in out
    assert old.host_id != new.host_id
    assert old.salt != new.salt


def test_it_refuses_while_the_collector_runs_and_names_it(home: Path, run: Run) -> None:
    old = load_identity(home / "state")

    with hold_lock(home / "state", 4711):
        code, out, err = run("collector", "new-identity")

    assert (code, out) == (1, "")
    assert "Stop it first" in err
    assert load_identity(home / "state") == old


def test_it_mends_an_identity_that_cannot_be_read(home: Path, run: Run) -> None:
    load_identity(home / "state")
    (home / "state" / "host.json").write_text("{")

    assert run("collector", "new-identity")[0] == 0
    assert json.loads((home / "state" / "host.json").read_text())["host_id"]


def test_the_state_directory_can_be_named_on_either_side(home: Path, run: Run) -> None:
    for words in (
        ("collector", "--state-dir", str(home / "a"), "new-identity"),
        ("collector", "new-identity", "--state-dir", str(home / "a")),
    ):
        before = load_identity(home / "a").host_id
        assert run(*words)[0] == 0
        assert load_identity(home / "a").host_id != before
