"""`adsum hooks status`: which hooks stand in which file, and whether anybody takes what they post."""

from __future__ import annotations

import sys
from pathlib import Path

from adsum.doctor_hooks import settings_files
from adsum.hooks import Setup, note_shared, say_version
from adsum.outcome import CommandError
from adsum.plugin_hooks import Plugin, active_plugin
from adsum.reporting import reporting_here, unanswered
from adsum.statusline import standing
from adsum_collector.claude_version import ClaudeNotFoundError
from adsum_collector.install import Report, inspect_hooks
from adsum_collector.settings_file import SettingsError


def run_status(setup: Setup) -> None:
    """Exits with ERROR when something keeps the hooks from reporting."""
    report, plugin = _report(setup)
    say_version(setup, None if setup.found[0] else reporting_here(setup.state_dir))
    _out(f"{report.path}{'' if report.exists else ' (no such file)'}")
    for event, count in report.counts.items():
        _out(f"  {event}{f'  ({count} times)' if count > 1 else ''}")
    _out(standing(report.statusline))
    note_shared(report)
    if plugin and not report.counts:
        _by_plugin(setup, plugin)
        return
    if plugin:
        _err(
            f"Warning: the plugin {plugin.id} brings the same hooks. Each event is reported twice, "
            f"and counted once. Take one out: adsum hooks remove, or {plugin.removal}"
        )
    if setup.parked.exists() and not report.counts:
        _out("They are out while Adsum is stopped; `adsum up` puts them back.")
        return
    faults = setup.faults(report)
    if not faults:
        _out(f"All {len(report.counts)} hooks stand; they post to port {setup.port}.")
        if silence := unanswered(setup.port, len(report.counts)):
            _err(f"Warning: {silence}")
        return
    for fault in faults:
        _out(f"  ! {fault}")
    remedy = "set it right in the file" if report.disabled else "adsum hooks install"
    raise CommandError(f"Hooks are not as they should be. Next: {remedy}")


def _by_plugin(setup: Setup, plugin: Plugin) -> None:
    if fault := plugin.fault(setup):
        raise CommandError(f"{fault[0]} Next: {fault[1]}")
    _out(f"The plugin {plugin.id} reports instead; it posts to port {setup.port}.")
    if silence := unanswered(setup.port, len(plugin.hooks.counts) if plugin.hooks else 0):
        _err(f"Warning: {silence}")


def _report(setup: Setup) -> tuple[Report, Plugin | None]:
    """What the settings hold, and the plugin that reports beside them."""
    try:
        _ = setup.found
        files = settings_files(Path.home(), Path.cwd())
        return inspect_hooks(setup.path), active_plugin(files.deciding, files.user)
    except (SettingsError, ClaudeNotFoundError) as error:
        raise CommandError(str(error)) from error


def _out(text: str) -> None:
    print(text)  # noqa: T201 - the command line speaks here


def _err(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - the command line speaks here
