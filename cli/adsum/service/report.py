"""`adsum service status|logs`: what runs, since when, what is wrong with it, and what it said."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from adsum.client import SilentError, readiness
from adsum.doctor.checks import check_collector
from adsum.outcome import CommandError, Exit
from adsum.service.init import Init, View
from adsum.service.job import kept_values, owner_of
from adsum.service.service import BOTH, find_init
from adsum.service.units import PartName
from adsum.text.saying import put_json, say
from adsum.text.words import age
from adsum_collector.state_dir import running_port
from adsum_shared.redact import clean

#: A part that starts is up long before.
PATIENCE_S = 15.0


SCHEMA = 1


def show_status(*, system: bool, only_hub: bool, as_json: bool = False) -> Exit:
    """ERROR if anything that should run does not, or nothing is installed."""
    init = find_init(system=system)
    parts = _installed(init, only_hub=only_hub)
    init.require()
    if as_json:
        told = as_data(init, parts)
        put_json(told)
        return Exit.ERROR if told["wrong"] or not parts else Exit.OK
    if not parts:
        what = "The hub is" if only_hub else "Adsum is"
        flags = " --system" * system + " --hub" * only_hub
        _out(f"{what} not installed as a service. Next: adsum service install{flags}")
        return Exit.ERROR
    views = [view for part in parts for view in init.view(part)]
    for view in views:
        _out(_line(view))
    wrong = _wrong(init, parts, views)
    owner = owner_of(system=system)
    for sentence in wrong:
        _out(f"  ! {clean(sentence)}")
    for sentence in init.notes(owner):
        _out(f"  {sentence}")
    return Exit.ERROR if wrong else Exit.OK


def as_data(init: Init, parts: list[PartName]) -> dict[str, Any]:
    """up_s: seconds it has been so, None if it is not up."""
    views = [view for part in parts for view in init.view(part)]
    wrong = [clean(each) for each in _wrong(init, parts, views)]
    units = [
        {
            "unit": view.unit,
            "state": view.state,
            "up_s": None if view.since is None else round(view.since),
            "pid": view.pid or None,
            "notes": list(view.notes),
        }
        for view in views
    ]
    return {"schema": SCHEMA, "installed": bool(parts), "units": units, "wrong": wrong}


def _wrong(init: Init, parts: list[PartName], views: list[View]) -> list[str]:
    wrong = [sentence for view in views for sentence in view.wrong]
    wrong += [sentence for part in parts for sentence in _wrong_files(init.paths(part))]
    if "collector" in parts and not wrong:
        wrong += _wrong_inside(init)
    return wrong


def show_logs(*, system: bool, only_hub: bool, lines: int, follow: bool) -> int:
    init = find_init(system=system)
    part: PartName = "hub" if only_hub else "collector"
    if not _installed(init, only_hub=only_hub):
        raise CommandError("Adsum is not installed as a service. Next: adsum service install")
    command = init.log_command(part, lines, follow=follow)
    try:
        code = subprocess.call(command)  # noqa: S603 - our own words, no shell
    except FileNotFoundError as error:
        raise CommandError(f"There is no {command[0]} on PATH to read the log with.") from error
    if code:
        raise CommandError(
            f"`{' '.join(command)}` ended with {code}. Run it with sudo if you may not read the log."
        )
    return int(Exit.OK)


def until_up(*, system: bool, hub: bool) -> bool:
    """Whether all of it runs soon. At once where something has failed for good."""
    init = find_init(system=system)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        views = [view for part in (BOTH if hub else BOTH[:1]) for view in init.view(part)]
        if all(view.since is not None for view in views) and _answers(init):
            return True
        if any(view.state == "failed" for view in views) or time.monotonic() > deadline:
            return False
        time.sleep(0.2)


def _answers(init: Init) -> bool:
    state_dir = _state_dir(init)
    port = running_port(state_dir) if state_dir else None
    try:
        return port is not None and bool(readiness(f"http://127.0.0.1:{port}"))
    except SilentError:
        return False


def _installed(init: Init, *, only_hub: bool) -> list[PartName]:
    parts = BOTH[1:] if only_hub else BOTH
    return [part for part in parts if any(path.is_file() for path in init.paths(part))]


def _wrong_inside(init: Init) -> list[str]:
    """What the collector says of itself."""
    state_dir = _state_dir(init)
    if state_dir is None:
        return []
    check = check_collector(state_dir)
    if check.result == "ok":
        return []
    fix = check.fix if check.fix and "adsum up" not in check.fix else None
    return [f"{check.what} {fix or 'Look at: adsum service logs'}"]


def _state_dir(init: Init) -> Path | None:
    """As the service was told; None where only root may read that."""
    told = kept_values(system=init.system).get("ADSUM_STATE_DIR")
    return Path(told) if told else None


def _wrong_files(paths: Iterable[Path]) -> list[str]:
    wrong = []
    for path in paths:
        if not path.is_file():
            wrong.append(f"{path} is gone. Next: adsum service install")
        elif path.suffix == ".env" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            wrong.append(
                f"{path} may hold credentials and others can read it. Run `chmod 600 {path}`."
            )
        elif path.suffix == ".service":
            wrong += _wrong_program(path)
    return wrong


def _wrong_program(unit: Path) -> list[str]:
    """The commonest end of a service: its Python is gone with an upgrade."""
    found = re.search(r'^ExecStart="?(.+?)"? -P ', unit.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        return []
    program = found[1].replace("%%", "%").replace("$$", "$").replace("\\", "")
    if Path(program).exists():
        return []
    return [f"The program it starts, {program}, is gone. Next: adsum service install"]


def _line(view: View) -> str:
    words = [f"{view.unit:<25}", f"{view.state:<10}"]
    if view.since is not None:
        at = datetime.fromtimestamp(time.time() - view.since).astimezone()
        words.append(f"since {at:%Y-%m-%d %H:%M:%S} ({age(int(view.since * 1000))})")
    more = [f"process {view.pid}"] if view.pid else []
    more += view.notes
    return " ".join((*words, ", ".join(more))).rstrip()


def _out(text: str) -> None:
    say(text, sys.stdout)
