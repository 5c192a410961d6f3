"""The files of a service, letter by letter, and how odd names and values stand in them."""

from __future__ import annotations

import dataclasses
import plistlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adsum.service.inits import plist, service_unit, socket_unit
from adsum.service.job import MARK, Job, env_text, env_values

GOLDEN = Path(__file__).parent / "test_service_golden"
HOME = Path("/home/ada")
COLLECTOR = Job(
    "collector",
    Path("/opt/adsum/bin/python"),
    HOME / ".local/state/adsum",
    HOME / ".config/adsum/collector.env",
    port=47892,
)
HUB = dataclasses.replace(COLLECTOR, part="hub", env_file=HOME / ".config/adsum/hub.env")
SYSTEM = dataclasses.replace(COLLECTOR, account="ada", env_file=Path("/etc/adsum/collector.env"))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("user-collector.service", lambda: service_unit(COLLECTOR)),
        ("user-collector.socket", lambda: socket_unit(COLLECTOR)),
        ("user-hub.service", lambda: service_unit(HUB)),
        ("system-collector.service", lambda: service_unit(SYSTEM)),
        ("system-collector.socket", lambda: socket_unit(SYSTEM)),
        ("collector.plist", lambda: plist(COLLECTOR)),
    ],
)
def test_the_files_are_as_they_were_reviewed(name: str, write: Callable[[], str]) -> None:
    """After a change that is meant: write the new text into the file of that name."""
    assert write() == (GOLDEN / name).read_text()


def test_a_users_unit_asks_for_nothing_that_ends_it_in_a_users_manager() -> None:
    """Whatever drops capabilities fails there with 218/CAPABILITIES."""
    dropping = ("Capabilit", "PrivateDevices", "ProtectKernel", "ProtectClock", "ProtectHostname")

    assert not [word for word in dropping if word in service_unit(COLLECTOR)]
    assert all(word in service_unit(SYSTEM) for word in dropping)


def test_the_process_table_and_transcripts_stay_visible() -> None:
    for text in (service_unit(COLLECTOR), service_unit(SYSTEM)):
        assert "ProtectProc" not in text
        assert "ProcSubset" not in text
        assert "ProtectHome=read-only" in text


def test_what_lies_in_tmp_can_be_reached() -> None:
    text = service_unit(dataclasses.replace(COLLECTOR, shared_tmp=True))

    assert "PrivateTmp" not in text
    assert "ReadWritePaths=/tmp /var/tmp" in text


def test_odd_paths_are_one_word_and_mean_themselves() -> None:
    odd = dataclasses.replace(
        COLLECTOR, python=Path('/opt/a b/100%/$x/"py"'), state_dir=Path("/var/lib/a b/100%")
    )
    text = service_unit(odd)

    assert 'ExecStart="/opt/a b/100%%/$$x/\\"py\\"" -P -m adsum collector' in text
    assert 'ReadWritePaths="/var/lib/a b/100%%"' in text
    assert "ListenStream=/var/lib/a b/100%%/collector.sock" in socket_unit(odd)


def test_a_plist_is_one_and_says_who_wrote_it() -> None:
    odd = dataclasses.replace(COLLECTOR, state_dir=Path("/Users/a & b/<state>"), account="ada")
    text = plist(odd)
    held = plistlib.loads(text.encode())

    assert MARK in text[:400]
    assert held["KeepAlive"] is True
    assert held["UserName"] == "ada"
    assert held["StandardErrorPath"] == "/Users/a & b/<state>/logs/collector.log"
    assert held["ProgramArguments"][3:] == [str(odd.env_file), *odd.command]
    assert "EnvironmentVariables" not in held  # others can read a plist


def test_a_shell_reads_back_every_value_and_runs_none(tmp_path: Path) -> None:
    values = {
        "ADSUM_REDIS_URL": "redis://u:p$HOME`id`\"'\\q@h:1/0?x=a&b=c d",
        "ADSUM_NOTIFY": '[{"on": "needs_you", "quiet": null}]',
        "ADSUM_HOST_LABEL": "Grüße #1; $(id)",
    }
    file = tmp_path / "collector.env"
    file.write_text(env_text(values))

    held = plistlib.loads(plist(COLLECTOR).encode())
    shell = [*held["ProgramArguments"][:3], str(file), "env", "-0"]
    printed = subprocess.run(shell, capture_output=True, check=True).stdout.decode()
    seen = dict(pair.split("=", 1) for pair in printed.split("\0") if "=" in pair)

    assert {name: seen[name] for name in values} == values
    assert env_values(file.read_text()) == values


def test_a_value_with_a_line_break_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ADSUM_HOST_LABEL has a line break"):
        env_text({"ADSUM_HOST_LABEL": "a\nADSUM_REDIS_URL=x"})
