"""Puts hooks into agents' settings, takes them out, and shows how they and the status line fare."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from adsum.client import SilentError, readiness
from adsum.hooks import Setup
from adsum.outcome import CommandError, agrees, put, put_json, say
from adsum.text.words import age, cause_sentence
from adsum_collector.agents.installer import Change, Plugin, Report, StatusLine
from adsum_collector.state_dir import running_port

SCHEMA = 1
RED = ", and {} prints a red line for every hook that is posted and not answered"
_STANDING = {
    "none": "none, and Adsum leaves it so: even an empty one would take a row of the screen",
    "other": "one that Claude Code does not run as a command; Adsum leaves it alone",
    "own": "your own, as you wrote it; `adsum hooks install --statusline` has it tell Adsum as well",
    "wrapped": "your own; it tells Adsum as well and looks the same",
    "filled": "Adsum's, which shows nothing",
    "altered": (
        "Adsum's wrapper in a shape that Adsum did not write; set `statusLine` right by hand"
    ),
}


def standing(line: StatusLine) -> str:
    return f"Status line: {_STANDING[line.kind]}."


def _tell_standing(setup: Setup, report: Report) -> None:
    if setup.installer.shows:
        _out(standing(report.statusline))


def run_install(setup: Setup, *, dry_run: bool, yes: bool = False) -> None:
    if setup.installer.asks and not dry_run and not yes and not setup.is_complete():
        if not sys.stdin.isatty():
            raise CommandError(f"{setup.installer.asks} Agree to it: {setup.command} --yes")
        say(setup.installer.asks)
        if not agrees(f"Install and trust them in {setup.path.parent}? [Y/n] "):
            _out(f"Nothing was changed in {setup.path.parent}.")
            return
    change = setup.install(dry_run=dry_run)
    say_version(setup)
    if dry_run:
        report = setup.inspect()
        _print_diff(
            change, report, report.wanted(setup.version), "would be put in, one for each of"
        )
        return
    report = setup.inspect()
    events = list(report.counts)
    if not change.needed:
        _out(f"Hooks are in {change.path} already: {len(events)} events.")
        _out(f"Sent: {setup.sends(report)}.")
        _tell_standing(setup, report)
        return
    _out(f"Hooks for {len(events)} events are in {change.path}.")
    if change.trusted:
        _out(f"{setup.agent.title} trusts them, {change.trusted} in all.")
    _out(f"Sent: {setup.sends(report)}.")
    note_closed(change)
    _tell_standing(setup, report)
    if change.backup:
        _out(f"The file as it was: {change.backup}")
    if running_port(setup.state_dir) is None:
        say(
            f"No collector runs here yet{RED.format(setup.agent.title) if report.posted else ''}: start it with `adsum up`, "
            "or take them out with `adsum hooks remove`."
        )
        return
    _out(f"{setup.installer.heard} Try: {setup.command.replace('install', 'verify')}")


def run_remove(setup: Setup, *, dry_run: bool) -> None:
    change = setup.remove(dry_run=dry_run)
    if dry_run:
        report = setup.inspect()
        _print_diff(change, report, list(report.counts), "would be taken out:")
        return
    parked = setup.parked.exists()
    setup.parked.unlink(missing_ok=True)
    line = setup.inspect().statusline
    if line.kind == "altered":
        say(standing(line))
    if not change.needed:
        after = "`adsum up` will not put them back" if parked else "Nothing was changed"
        _out(f"No hooks of Adsum are in {change.path}. {after}.")
    elif change.after is None:
        _out(f"{change.path} is gone again, as it was before the hooks.")
    else:
        _out(f"Adsum's hooks are out of {change.path}; everything else is as it was.")


def note_shared(report: Report) -> None:
    """Says so where others can read the token in the settings."""
    if report.shared and report.tokens:
        say(
            f"Note: others on this machine can read {report.path}, and the token in it that lets "
            "hooks report to Adsum. To close it: adsum hooks install"
        )


def note_closed(change: Change) -> None:
    if change.closes:
        say(
            f"Others can no longer read {change.path}: it holds the hooks' token now. With the "
            "hooks taken out, its mode is as it was."
        )


def say_version(setup: Setup) -> None:
    (version, program), title = setup.found, setup.agent.title
    if version is not None:
        say(f"{title} {'.'.join(map(str, version))} ({program})")
        return
    if setup.known_version is not None:
        known = ".".join(map(str, setup.known_version))
        why = "it was here at the last install, or runs now"
        say(f"{title} was not found. Hooks are those for {known}: {why}.")
        return
    assumed = ".".join(map(str, setup.installer.assumed))
    why = f"{program} does not answer" if program else f"{title} was not found"
    say(
        f"{why}, so only events that {assumed} knows are considered. "
        "For all of them, name the program: --program PATH"
    )


def _print_diff(change: Change, report: Report, events: Sequence[str], done: str) -> None:
    """What it comes to goes before the diff, which is long."""
    if diff := change.diff():
        now = f" {sum(report.counts.values())} of Adsum stand there now." if report.counts else ""
        entries = f"{len(events)} entries" if len(events) != 1 else "1 entry"
        _out(f"{change.path}: {entries} {done} {', '.join(events)}.{now} All else stays.\n")
        put(diff)
    else:
        _out(f"{change.path}: nothing to change.")


def run_status(*setups: Setup, as_json: bool = False) -> None:
    """Exits with ERROR when something keeps the hooks from reporting. as_json: of the first alone."""
    astray = []
    for setup in setups:
        try:
            _status(setup, as_json=as_json)
        except CommandError as error:
            astray.append(error)
    for each in astray[:-1]:
        say(str(each))
    if astray:
        raise astray[-1]


def _status(setup: Setup, *, as_json: bool) -> None:
    _ = setup.found  # a wrong --program is said before anything else
    report, plugin = setup.inspect(), setup.installer.plugin(setup.files)
    if as_json:
        data = as_data(setup, report, plugin)
        put_json(data)
        if data["faults"]:
            raise _astray(setup, report, plugin)
        return
    say_version(setup)
    _out(f"{report.path}{'' if report.exists else ' (no such file)'}")
    for event, count in report.counts.items():
        _out(f"  {event}{f'  ({count} times)' if count > 1 else ''}")
    _tell_standing(setup, report)
    note_shared(report)
    if plugin and not report.counts:
        _by_plugin(setup, report, plugin)
        return
    if plugin:
        say(
            f"Warning: the plugin {plugin.id} brings the same hooks. Each event is reported twice, "
            f"and counted once. Take one out: adsum hooks remove, or {plugin.removal}"
        )
    if setup.parked.exists() and not report.counts:
        _out("They are out while Adsum is stopped; `adsum up` puts them back.")
        return
    faults = setup.faults(report)
    if not faults:
        _out(f"All {len(report.counts)} hooks stand; {setup.sends(report)}.")
        if silence := unanswered(setup.port, len(report.counts), len(report.posted)):
            say(f"Warning: {silence}")
        return
    for fault in faults:
        _out(f"  ! {fault}")
    raise _astray(setup, report, plugin)


def as_data(setup: Setup, report: Report, plugin: Plugin | None) -> dict[str, Any]:
    """parked: out of the file while Adsum is stopped, which is no fault."""
    parked = setup.parked.exists() and not report.counts
    faults = [] if parked else setup.faults(report)
    if plugin and not report.counts:
        fault = plugin.fault(setup.version)
        faults = [fault[0]] if fault else []
    return {
        "schema": SCHEMA,
        "agent": setup.agent.name,
        "file": str(report.path),
        "exists": report.exists,
        "hooks": dict(report.counts),
        "port": setup.port,
        "transport": "http" if report.posted else "shim",
        "why": setup.way[1],
        "statusline": report.statusline.kind,
        "plugin": plugin.id if plugin else None,
        "parked": parked,
        "faults": faults,
        "answered": unanswered(setup.port, len(report.counts), 0) is None,
    }


def _astray(setup: Setup, report: Report, plugin: Plugin | None) -> CommandError:
    if plugin and not report.counts and (fault := plugin.fault(setup.version)):
        return CommandError(f"{fault[0]} Next: {fault[1]}")
    remedy = "set it right in the file" if report.disabled else setup.command
    return CommandError(f"Hooks are not as they should be. Next: {remedy}")


def _by_plugin(setup: Setup, report: Report, plugin: Plugin) -> None:
    if plugin.fault(setup.version):
        raise _astray(setup, report, plugin)
    _out(f"The plugin {plugin.id} reports instead, by its shim.")
    if silence := unanswered(setup.port, len(plugin.hooks.counts) if plugin.hooks else 0, 0):
        say(f"Warning: {silence}")


def show_statusline(setup: Setup, *, as_json: bool = False) -> None:
    """heard_at: ms, 0 for never; None: no collector that knows of status lines answers."""
    line, url = setup.inspect().statusline, f"http://127.0.0.1:{setup.port}"
    try:
        witness, silence = _witness(readiness(url)), None
    except SilentError as error:
        witness, silence = None, f"none answers at {url} ({error}); `adsum up` starts one"
    if as_json:
        put_json(
            {
                "schema": SCHEMA,
                "file": str(setup.path),
                "kind": line.kind,
                "command": line.command,
                "reports_to": line.socket,
                "collector": url,
                "answers": silence is None,
                "heard_at": witness and witness.get("heard_at", 0),
                "failures": witness and witness.get("counts", {}),
            }
        )
        return
    _out(f"file         {setup.path}")
    _out(f"status line  {_STANDING[line.kind]}")
    if line.command is not None:
        _out(f"command      {line.command}")
    if line.socket is not None:
        _out(f"reports to   {line.socket}")
    _out(f"collector    {silence or _heard(witness)}")


def _witness(facts: dict[str, Any]) -> dict[str, Any] | None:
    """Of a collector's facts, what it has of status lines."""
    witnesses = facts.get("witnesses")
    for each in witnesses if isinstance(witnesses, list) else []:
        if isinstance(each, dict) and each.get("name") == "statusline":
            return each
    return None


def _heard(witness: dict[str, Any] | None) -> str:
    if witness is None:
        return "one answers, of a version that knows no status lines"
    heard_at = witness.get("heard_at", 0)
    counts = witness.get("counts", {})
    heard = "one answers; no status line has reported to it yet"
    if heard_at:
        heard = f"one answers; a status line reported {age(int(time.time() * 1000) - heard_at)} ago"
    failed = ", ".join(cause_sentence(cause, times) for cause, times in counts.items())
    return f"{heard}\nfailures     {failed or 'none'}"


def unanswered(port: int, hooks: int, posted: int) -> str | None:
    """What comes of it, and the next step; None while a collector answers. posted: of the hooks."""
    try:
        readiness(f"http://127.0.0.1:{port}")
    except SilentError as error:
        red = " and Claude Code prints a red line for every one that is posted" if posted else ""
        return (
            f"Nobody answers at port {port} ({error}), so all {hooks} hooks tell in vain{red}. "
            "Start Adsum with `adsum up`, or take the hooks out with `adsum hooks remove`."
        )
    return None


def _out(text: str) -> None:
    say(text, sys.stdout)
