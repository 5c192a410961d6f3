"""Checks the hooks in the settings that Claude Code reads, and which sessions report without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import msgspec

from adsum.doctor.checks import Finding, from_text
from adsum.hooks import (
    Plugin,
    SettingsFiles,
    Setup,
    absent,
    active_plugin,
    installed_command,
    settings_files,
    settings_in,
)
from adsum.hooks_commands import unanswered
from adsum.outcome import CommandError
from adsum.sessions import fetch_sessions
from adsum.text.words import hook_problem
from adsum_collector.agents.claude_code.install import (
    Report,
    SettingsError,
    inspect_hooks,
)
from adsum_collector.agents.claude_code.settings_text import ALLOWED_URLS, HOOK_PATH, permits
from adsum_collector.state_dir import held_token
from adsum_shared.redact import clean
from adsum_shared.state import HostView, SessionView


def check_hooks(
    setup: Setup,
    files: SettingsFiles,
    *,
    idle: bool = False,
    alone: bool = False,
    reporting: str | None = None,
) -> list[Finding]:
    """idle: neither collector nor hub runs, so whoever starts them is asked about hooks anyway.

    alone: a hub runs, and no collector ever has, so hooks need not be wanted.
    reporting: the version that sessions here are known to have, where the program is not found.
    """
    try:
        reports = [inspect_hooks(path) for path in files.hooked]
        ours = [report for report in reports if report.counts]
        plugin = active_plugin(files.deciding, files.user)
        if plugin and not ours:
            hooks = _by_plugin(setup, plugin)
        else:
            hooks = _installed(setup, ours, reporting, idle=idle, alone=alone)
        return [hooks, _doubled(setup, ours, plugin), _enabled(setup, files)]
    except SettingsError as error:
        return [from_text("hooks", "fail", str(error))]


def _installed(
    setup: Setup, ours: list[Report], reporting: str | None, *, idle: bool, alone: bool
) -> Finding:
    if not ours:
        if setup.parked.exists():
            what = "Hooks are out of the settings while Adsum is stopped."
            return Finding("hooks", "warn", what, "`adsum up` puts them back.")
        if idle:
            what = f"No hooks of Adsum are in {setup.path} yet; `adsum up` offers to add them."
            return Finding("hooks", "skip", what)
        if alone:
            what = f"No hooks of Adsum are in {setup.path}, nor has a collector run to take them."
            return Finding("hooks", "skip", what)
        what = f"No hooks of Adsum are in {setup.path}, so sessions are seen late and in part."
        return Finding("hooks", "fail", what, "adsum hooks install")
    report = ours[0]
    # Switched off and doubled have checks of their own.
    plain = dataclasses.replace(
        report, disabled=False, blocked=False, counts=dict.fromkeys(report.counts, 1)
    )
    gone = _gone(report.path)
    faults = [*setup.faults(plain), *gone]
    if faults:
        what = f"The hooks in {report.path} are not right: {'; '.join(faults)}."
        scope = "" if report.path == setup.path else " --scope project"
        astray = gone or not _arrives(setup, report)
        return Finding("hooks", "fail" if astray else "warn", what, f"adsum hooks install{scope}")
    hooks = len(report.counts), len(report.posted)
    if (idle or alone) and (silence := unanswered(setup.port, *hooks)):
        return from_text("hooks", "warn", silence)
    return _complete(setup, report, reporting)


def _by_plugin(setup: Setup, plugin: Plugin) -> Finding:
    if fault := plugin.fault(setup):
        return Finding("hooks", "warn", *fault)
    what = f"No hooks of Adsum are in {setup.path}: the plugin {plugin.id} reports instead."
    return Finding("hooks", "ok", what)


def _complete(setup: Setup, report: Report, reporting: str | None) -> Finding:
    if setup.found[0] is None and reporting is not None:
        what = f"{len(report.counts)} hooks stand in {report.path}, and sessions of Claude Code {reporting} report."
        return Finding("hooks", "ok", what)
    known = ".".join(map(str, setup.version))
    whose = f"Claude Code {known}" if setup.found[0] else f"{known}, as Claude Code was not found"
    what = f"{len(report.counts)} hooks stand in {report.path}, all that are for {whose}; {setup.sends(report)}."
    return Finding("hooks", "ok", what)


def _gone(path: Path) -> list[str]:
    command = installed_command(path)
    missing = absent(command) if command else []
    return [f"they run {file}, which is not there" for file in missing]


def _arrives(setup: Setup, report: Report) -> bool:
    """Whether what is posted reaches this collector and is let in, complete or not."""
    if report.posted and setup.stranger:
        return False
    token = f"Bearer {held_token(setup.state_dir)}"
    return (
        report.ports <= {setup.port}
        and report.tokens <= {token}
        and report.sockets <= {str(setup.socket)}
    )


def _doubled(setup: Setup, ours: list[Report], plugin: Plugin | None) -> Finding:
    if plugin and ours:
        what = (
            f"Hooks of Adsum stand in {ours[0].path}, and the plugin {plugin.id} brings the same: "
            "each event is reported twice, and counted once."
        )
        scope = "" if ours[0].path == setup.path else " --scope project"
        return Finding("hooks-doubled", "warn", what, f"adsum hooks remove{scope}")
    for report in ours:
        if report.doubled:
            what = f"{report.path} has the same hook more than once: {', '.join(report.doubled)}."
            return Finding("hooks-doubled", "warn", what, "adsum hooks install")
    if len(ours) < 2:
        return Finding("hooks-doubled", "ok", "No hook stands twice.")
    what = (
        f"Hooks of Adsum stand in {' and in '.join(str(report.path) for report in ours)}; "
        "Claude Code runs equal ones once, and others twice."
    )
    return Finding("hooks-doubled", "warn", what, "adsum hooks remove --scope project")


def _enabled(setup: Setup, files: SettingsFiles) -> Finding:
    paths = [*files.hooked, *files.managed]
    settings = {path: settings_in(path) for path in paths}
    off = _switches(settings, "disableAllHooks", paths)
    if off:
        what = f'{off[0]} says "disableAllHooks": true, so Claude Code runs none.'
        return Finding("hooks-enabled", "fail", what, f"Take it out of {off[0]}.")
    off = _switches(settings, "allowManagedHooksOnly", files.managed)
    if off:
        what = f"{off[0]} allows the administrator's hooks only."
        fix = "Ask whoever keeps that file. Until then the transcript and the registry tell."
        return Finding("hooks-enabled", "fail", what, fix)
    lists = {path: each[ALLOWED_URLS] for path, each in settings.items() if ALLOWED_URLS in each}
    allowed = [url for urls in lists.values() if isinstance(urls, list) for url in urls]
    # Not setup.target: it would mint a token, and looking on must leave nothing behind.
    url = f"http://127.0.0.1:{setup.port}{HOOK_PATH}"
    if lists and not permits(allowed, url):
        named = ", ".join(map(str, lists))
        what = f'"{ALLOWED_URLS}" in {named} does not permit {url}.'
        return Finding("hooks-enabled", "fail", what, "Add that address to the list.")
    return Finding("hooks-enabled", "ok", "No settings switch hooks off.")


def _switches(
    settings: dict[Path, dict[str, object]], name: str, paths: Iterable[Path]
) -> list[Path]:
    return [path for path in paths if settings[path].get(name) is True]


def check_sessions(url: str, host: HostView | None, home: Path) -> Finding:
    """url: the hub's. host: this machine as the hub has it."""
    if host is None or host.reachability != "live":
        what = "Sessions were not looked at: the hub told nothing of a live machine here."
        return Finding("sessions", "skip", what)
    try:
        answer = fetch_sessions(url, {"host": host.id})
    except CommandError as error:
        return Finding("sessions", "skip", f"The hub went away meanwhile: {error}")
    views = msgspec.convert(answer["sessions"], list[SessionView])
    unwell = [view for view in views if hook_problem(view)]
    if not unwell:
        return Finding("sessions", "ok", "No session's hooks are missing or come twice.")
    what = f"Of {len(unwell)} of {len(views)} sessions the hooks are missing, or come twice."
    fix = "Take the cause away, then end the session and resume it: `claude --resume ID`."
    return Finding(
        "sessions", "warn", what, fix, tuple(_session_line(view, home) for view in unwell)
    )


def _session_line(view: SessionView, home: Path) -> str:
    name = f"{view.session_id[:8]} {clean(view.title)}".strip()
    if hook_problem(view) == "doubled":
        return f"{name}: hooks come twice; they are installed in two places"
    off = _switched_off(home, Path(view.cwd)) if view.cwd else None
    cause = f"{off} switches them off" if off else "they may be switched off for it alone"
    return f"{name}: hooks do not come; {cause}"


def _switched_off(home: Path, cwd: Path) -> Path | None:
    """The settings that apply where the session runs and switch hooks off."""
    for path in settings_files(home, cwd).hooked:
        try:
            if settings_in(path).get("disableAllHooks") is True:
                return path
        except SettingsError:
            continue  # the check of hooks tells of a file that nobody can read
    return None
