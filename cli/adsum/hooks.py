"""`adsum hooks`: put our hooks into Claude Code's settings, take them out, say how they stand."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import adsum_collector
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum.statusline import faults_of, standing, usual_mode
from adsum.text.saying import say
from adsum_collector.claude_version import ClaudeNotFoundError, installed_version
from adsum_collector.hooks.events import ASSUMED, SHIM_NAME, Target, Version
from adsum_collector.hooks.install import (
    Report,
    inspect_hooks,
    install_hooks,
    remove_hooks,
    settings_path,
)
from adsum_collector.hooks.settings_file import Change, SettingsError
from adsum_collector.hooks.statusline_text import Mode
from adsum_collector.lock import running_port
from adsum_collector.settings import CollectorSettings
from adsum_collector.token import held_token, token_of


@dataclass(frozen=True)
class Setup:
    """One settings file, and the collector its hooks should report to.

    slot: what an install does with the status line; None: as it finds it.
    """

    path: Path
    state_dir: Path
    port: int
    claude: Path | None = None
    slot: Mode | None = None

    @cached_property
    def found(self) -> tuple[Version | None, Path | None]:
        """(version, program) of Claude Code. Raises ClaudeNotFoundError for a wrong --claude."""
        return installed_version(self.claude, os.environ, Path.home())

    @property
    def version(self) -> Version:
        return self.found[0] or ASSUMED

    @property
    def target(self) -> Target:
        package = Path(adsum_collector.__file__).parent
        return Target(
            port=self.port,
            token=token_of(self.state_dir),
            python=sys.executable,
            shim=package.parent / SHIM_NAME,
            socket=self.socket,
        )

    @property
    def socket(self) -> Path:
        return self.state_dir.absolute() / "collector.sock"

    @property
    def parked(self) -> Path:
        """Exists while `adsum up` has taken the hooks out and means to put them back.

        It holds the mode in which the status line goes back with them.
        """
        return self.state_dir / "hooks" / "parked"

    def install(self, *, dry_run: bool) -> Change:
        return install_hooks(
            self.path,
            self.state_dir,
            self.target,
            self.version,
            statusline=self.slot or usual_mode(self.path, self.parked),
            dry_run=dry_run,
        )

    def remove(self, *, dry_run: bool) -> Change:
        return remove_hooks(self.path, self.state_dir, dry_run=dry_run)

    def faults(self, report: Report) -> list[str]:
        """What keeps the hooks from reporting, as sentences for people."""
        found = []
        if not report.counts:
            return ["no hooks of Adsum are in it"]
        if report.ports - {self.port}:
            ports = ", ".join(map(str, sorted(report.ports)))
            found.append(f"they post to port {ports}, but the collector's is {self.port}")
        if report.tokens - {f"Bearer {held_token(self.state_dir)}"}:
            found.append("they carry another token than this collector's")
        if report.doubled:
            found.append(f"more than once: {', '.join(report.doubled)}")
        if report.missing(self.version):
            found.append(f"missing: {', '.join(report.missing(self.version))}")
        if report.unwanted(self.version):
            found.append(f"no longer wanted: {', '.join(report.unwanted(self.version))}")
        if report.disabled:
            found.append('the file says "disableAllHooks": true, so Claude Code runs none')
        if report.blocked:
            found.append('"allowedHttpHookUrls" does not permit their address')
        return found + faults_of(report.statusline, self.socket)

    def reports_here(self) -> bool:
        """Whether any of our hooks posts to this collector, in whatever shape they are."""
        return self.port in inspect_hooks(self.path).ports

    def is_complete(self) -> bool:
        report = inspect_hooks(self.path)
        return bool(report.counts) and not self.faults(report)


def setup_for(
    scope: str,
    state_dir: Path | None,
    claude: Path | None = None,
    statusline: bool | None = None,  # noqa: FBT001 - as the command line gives it
) -> Setup:
    """statusline: True for one even where the user has none, False for none of ours."""
    if scope not in ("user", "project"):
        raise CommandError(f"--scope is user or project, not {scope!r}.", Exit.USAGE)
    # The one slot of a project's file would hide the user's own.
    if scope == "project" and statusline:
        raise CommandError("--statusline goes with --scope user only.", Exit.USAGE)
    slot: Mode | None = {True: "fill", False: "leave", None: None}[statusline]
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    path = settings_path(scope, os.environ, Path.home(), Path.cwd())
    # A collector that runs knows its port better than this command's environment does.
    port = running_port(settings.state_dir) or settings.collector_port
    return Setup(path, settings.state_dir, port, claude, "leave" if scope == "project" else slot)


def run_install(setup: Setup, *, dry_run: bool) -> None:
    try:
        change = setup.install(dry_run=dry_run)
    except (SettingsError, ClaudeNotFoundError) as error:
        raise CommandError(str(error)) from error
    say_version(setup)
    if dry_run:
        _print_diff(change)
        return
    report = inspect_hooks(setup.path)
    events = list(report.counts)
    note_shared(report)
    if not change.needed:
        _out(f"Hooks are in {change.path} already: {len(events)} events.")
        _out(standing(report.statusline))
        return
    _out(f"Hooks for {len(events)} events are in {change.path}.")
    _out(standing(report.statusline))
    if change.backup:
        _out(f"The file as it was: {change.backup}")
    if running_port(setup.state_dir) is None:
        say(
            "No collector runs here yet, and Claude Code prints a red line for every hook that "
            "nobody answers: start it with `adsum up`, or take them out with `adsum hooks remove`."
        )
        return
    _out("Sessions that run now report from their next event on. Try: adsum hooks verify")


def run_remove(setup: Setup, *, dry_run: bool) -> None:
    try:
        change = setup.remove(dry_run=dry_run)
    except SettingsError as error:
        raise CommandError(str(error)) from error
    if dry_run:
        _print_diff(change)
        return
    parked = setup.parked.exists()
    setup.parked.unlink(missing_ok=True)
    line = inspect_hooks(setup.path).statusline
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
            f"hooks report to Adsum. To close it: chmod 600 {report.path}"
        )


def say_version(setup: Setup, reporting: str | None = None) -> None:
    """reporting: the version that sessions here are known to have, whatever is found."""
    version, program = setup.found
    if version is not None:
        say(f"Claude Code {'.'.join(map(str, version))} ({program})")
        return
    if reporting is not None:
        say(f"Sessions of Claude Code {reporting} report here; its program is in no usual place.")
        return
    assumed = ".".join(map(str, ASSUMED))
    why = f"{program} does not answer" if program else "Claude Code was not found"
    say(
        f"{why}, so only events that {assumed} knows are considered. "
        "For all of them, name the program: --claude PATH"
    )


def _print_diff(change: Change) -> None:
    if diff := change.diff():
        print(diff)  # noqa: T201 - data
    else:
        _out(f"{change.path}: nothing to change.")


def _out(text: str) -> None:
    say(text, sys.stdout)
