"""`adsum hooks status` shows which hooks stand in which file, and who takes what they post."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from adsum.doctor.hooks import reporting_here, settings_files, unanswered
from adsum.hooks import Setup, note_shared, say_version
from adsum.outcome import CommandError
from adsum.plugin_hooks import Plugin, active_plugin
from adsum.statusline import standing
from adsum.text.saying import put_json, say
from adsum_collector.agents.claude_code.install import Report, SettingsError, inspect_hooks
from adsum_collector.agents.claude_code.program import ClaudeNotFoundError

SCHEMA = 1


def run_status(setup: Setup, *, as_json: bool = False) -> None:
    """Exits with ERROR when something keeps the hooks from reporting."""
    report, plugin = _report(setup)
    if as_json:
        _print_data(setup, report, plugin)
        return
    say_version(setup, None if setup.found[0] else reporting_here(setup.state_dir))
    _out(f"{report.path}{'' if report.exists else ' (no such file)'}")
    for event, count in report.counts.items():
        _out(f"  {event}{f'  ({count} times)' if count > 1 else ''}")
    _out(standing(report.statusline))
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


def _print_data(setup: Setup, report: Report, plugin: Plugin | None) -> None:
    told = as_data(setup, report, plugin)
    put_json(told)
    if told["faults"]:
        raise _astray(setup, report, plugin)


def as_data(setup: Setup, report: Report, plugin: Plugin | None) -> dict[str, Any]:
    """parked: out of the file while Adsum is stopped, which is no fault."""
    parked = setup.parked.exists() and not report.counts
    faults = [] if parked else setup.faults(report)
    if plugin and not report.counts:
        fault = plugin.fault(setup)
        faults = [fault[0]] if fault else []
    return {
        "schema": SCHEMA,
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
    if plugin and not report.counts and (fault := plugin.fault(setup)):
        return CommandError(f"{fault[0]} Next: {fault[1]}")
    remedy = "set it right in the file" if report.disabled else "adsum hooks install"
    return CommandError(f"Hooks are not as they should be. Next: {remedy}")


def _by_plugin(setup: Setup, report: Report, plugin: Plugin) -> None:
    if plugin.fault(setup):
        raise _astray(setup, report, plugin)
    _out(f"The plugin {plugin.id} reports instead, by its shim.")
    if silence := unanswered(setup.port, len(plugin.hooks.counts) if plugin.hooks else 0, 0):
        say(f"Warning: {silence}")


def _report(setup: Setup) -> tuple[Report, Plugin | None]:
    """What the settings hold, and the plugin that reports beside them."""
    try:
        _ = setup.found
        files = settings_files(Path.home(), Path.cwd())
        return inspect_hooks(setup.path), active_plugin(files.deciding, files.user)
    except (SettingsError, ClaudeNotFoundError) as error:
        raise CommandError(str(error)) from error


def _out(text: str) -> None:
    say(text, sys.stdout)
