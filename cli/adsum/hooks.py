"""`adsum hooks` puts our hooks into Claude Code's settings, and takes them out."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import adsum_collector
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum.statusline import faults_of, standing, usual_mode
from adsum.text.saying import put, say
from adsum_collector.agents.claude_code.install import (
    Change,
    Report,
    SettingsError,
    inspect_hooks,
    install_hooks,
    remove_hooks,
    settings_path,
)
from adsum_collector.agents.claude_code.program import ClaudeNotFoundError, installed_version
from adsum_collector.agents.claude_code.settings_text import (
    ASSUMED,
    SHIM_NAME,
    Mode,
    Target,
    Transport,
    Version,
    is_posted,
)
from adsum_collector.settings import CollectorSettings
from adsum_collector.sockets import others_here, stranger_on
from adsum_collector.state_dir import held_token, renew_token, running_port, token_of
from adsum_shared.private_files import write_private

Wanted = Literal["auto", "http", "shim"]


@dataclass(frozen=True)
class Setup:
    """One settings file, and the collector its hooks should report to.

    slot: what an install does with the status line; None: as it finds it.
    wanted: how hooks are to be sent; None: as was wanted last.
    """

    path: Path
    state_dir: Path
    port: int
    claude: Path | None = None
    slot: Mode | None = None
    wanted: Wanted | None = None

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
            token=token_of(self.state_dir) if self.transport == "http" else "",
            python=sys.executable,
            shim=package.parent / SHIM_NAME,
            socket=self.socket,
            transport=self.transport,
        )

    @property
    def transport(self) -> Transport:
        return self.way[0]

    @cached_property
    def way(self) -> tuple[Transport, str]:
        """How hooks are to be sent, and why so."""
        if stranger := self.stranger:
            return "shim", f"the user {stranger} listens on port {self.port}"
        chosen = self._kept_wish if self.wanted is None else self.wanted
        if chosen in ("http", "shim"):
            return chosen, "chosen by --transport"
        if others := others_here():
            named = ", ".join(others[:3]) + (" and others" if len(others) > 3 else "")
            return "shim", f"others have an account here: {named}"
        return "http", "nobody else has an account here"

    @cached_property
    def stranger(self) -> str | None:
        """Who else listens on the collector's port."""
        return stranger_on(self.port)

    @property
    def _wish(self) -> Path:
        return self.state_dir / "hooks" / "transport"

    @property
    def _kept_wish(self) -> Wanted:
        try:
            kept = self._wish.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            kept = ""
        return "http" if kept == "http" else "shim" if kept == "shim" else "auto"

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
        if self.stranger and not dry_run:
            renew_token(self.state_dir)
        change = install_hooks(
            self.path,
            self.state_dir,
            self.target,
            self.version,
            statusline=self.slot or usual_mode(self.path, self.parked),
            dry_run=dry_run,
        )
        if not dry_run and self.wanted == "auto":
            self._wish.unlink(missing_ok=True)
        elif not dry_run and self.wanted is not None:
            write_private(self._wish, self.wanted.encode())
        return change

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
        found += self._sent_astray(report)
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

    def _sent_astray(self, report: Report) -> list[str]:
        """What goes where others may listen, or where nobody of ours does."""
        found = []
        if report.posted and self.stranger:
            found.append(
                f"the user {self.stranger} listens on port {self.port} and is handed their token "
                "and what they tell"
            )
        elif astray := sorted(e for e in report.posted if not is_posted(e, self.transport)):
            found.append(
                f"whoever listens on port {self.port} while no collector does could answer "
                f"{', '.join(astray)} ({self.way[1]})"
            )
        if report.sockets - {str(self.socket)}:
            sockets = ", ".join(sorted(report.sockets))
            found.append(f"they hand on to {sockets}, but the collector's socket is {self.socket}")
        return found

    def reports_here(self) -> bool:
        """Whether any of our hooks goes to this collector, in whatever shape they are."""
        report = inspect_hooks(self.path)
        return self.port in report.ports or str(self.socket) in report.sockets

    def sends(self, report: Report) -> str:
        """How what stands in the file goes, for people."""
        if report.posted:
            return f"they post to port {self.port} ({self.way[1]})"
        return f"the shim hands them on to {self.socket} ({self.way[1]})"

    def is_complete(self) -> bool:
        report = inspect_hooks(self.path)
        return bool(report.counts) and not self.faults(report)


def setup_for(
    scope: str,
    state_dir: Path | None,
    claude: Path | None = None,
    statusline: bool | None = None,  # noqa: FBT001 - as the command line gives it
    transport: str | None = None,
) -> Setup:
    """statusline: True for one even where the user has none, False for none of ours."""
    if scope not in ("user", "project"):
        raise CommandError(f"--scope is user or project, not {scope!r}.", Exit.USAGE)
    wanted: dict[str | None, Wanted | None] = {None: None, "auto": "auto"}
    wanted |= {"http": "http", "shim": "shim"}
    if transport not in wanted:
        raise CommandError(f"--transport is auto, http or shim, not {transport!r}.", Exit.USAGE)
    # The one slot of a project's file would hide the user's own.
    if scope == "project" and statusline:
        raise CommandError("--statusline goes with --scope user only.", Exit.USAGE)
    slot: Mode | None = {True: "fill", False: "leave", None: None}[statusline]
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    path = settings_path(scope, os.environ, Path.home(), Path.cwd())
    # A collector that runs knows its port better than this command's environment does.
    port = running_port(settings.state_dir) or settings.collector_port
    slot = "leave" if scope == "project" else slot
    return Setup(path, settings.state_dir, port, claude, slot, wanted[transport])


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
    if not change.needed:
        _out(f"Hooks are in {change.path} already: {len(events)} events.")
        _out(f"Sent: {setup.sends(report)}.")
        _out(standing(report.statusline))
        return
    _out(f"Hooks for {len(events)} events are in {change.path}.")
    _out(f"Sent: {setup.sends(report)}.")
    note_closed(change)
    _out(standing(report.statusline))
    if change.backup:
        _out(f"The file as it was: {change.backup}")
    if running_port(setup.state_dir) is None:
        say(
            f"No collector runs here yet{RED if report.posted else ''}: start it with `adsum up`, "
            "or take them out with `adsum hooks remove`."
        )
        return
    _out("Sessions that run now report from their next event on. Try: adsum hooks verify")


RED = ", and Claude Code prints a red line for every hook that is posted and not answered"


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
            "hooks report to Adsum. To close it: adsum hooks install"
        )


def note_closed(change: Change) -> None:
    if change.closes:
        say(
            f"Others can no longer read {change.path}: it holds the hooks' token now. With the "
            "hooks taken out, its mode is as it was."
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
        put(diff)
    else:
        _out(f"{change.path}: nothing to change.")


def _out(text: str) -> None:
    say(text, sys.stdout)
