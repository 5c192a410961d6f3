"""Knows how hooks of ours stand in Claude Code's settings, and how they should: `Setup`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import adsum_collector
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum_collector.agents.claude_code import install
from adsum_collector.agents.claude_code.install import (
    Change,
    Report,
    SettingsError,
    decode_settings,
    inspect_hooks,
    install_hooks,
    remove_hooks,
    settings_path,
)
from adsum_collector.agents.claude_code.json_text import JsonTextError
from adsum_collector.agents.claude_code.program import installed_version
from adsum_collector.agents.claude_code.settings_text import (
    ASSUMED,
    FIRST_WITH_STATUS,
    SHIM_NAME,
    Mode,
    ShapeError,
    StatusLine,
    Target,
    Transport,
    Version,
    command_words,
    hooks_in,
    is_ours,
    is_posted,
    parse_settings,
)
from adsum_collector.settings import CollectorSettings
from adsum_collector.sockets import others_here, stranger_on
from adsum_collector.state_dir import held_token, renew_token, running_port, token_of
from adsum_shared.private_files import write_private

Wanted = Literal["auto", "http", "shim"]
LINUX_POLICY = Path("/etc/claude-code")
MAC_POLICY = Path("/Library/Application Support/ClaudeCode")
PLUGIN = "adsum"


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


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """The settings that apply in one directory. project: the user's own ones, then the shared."""

    user: Path
    project: tuple[Path, ...]
    managed: tuple[Path, ...]

    @property
    def deciding(self) -> tuple[Path, ...]:
        """All of them, those first whose word counts for more."""
        return (*self.managed, *self.project, self.user)

    @property
    def hooked(self) -> list[Path]:
        """Where hooks of ours may stand, each file once: a home can be a project as well."""
        found: dict[str, Path] = {}
        for path in (self.user, *self.project):
            found.setdefault(os.path.realpath(path), path)
        return list(found.values())


def settings_files(home: Path, cwd: Path, policy: Path | None = None) -> SettingsFiles:
    """policy: the folder of the administrator's settings."""
    local = settings_path("project", os.environ, home, cwd)
    folder = policy or (MAC_POLICY if sys.platform == "darwin" else LINUX_POLICY)
    managed = [folder / "managed-settings.json", *folder.glob("managed-settings.d/*.json")]
    return SettingsFiles(
        user=settings_path("user", os.environ, home, cwd),
        project=(local, local.with_name("settings.json")),
        managed=tuple(sorted(managed)),
    )


def settings_in(path: Path) -> dict[str, object]:
    """Empty if there is no such file. Raises SettingsError for what Claude Code would not read."""
    _, text = decode_settings(install.read_settings(path), path)
    try:
        return parse_settings(text)
    except JsonTextError as error:
        raise SettingsError(f"{path}, {error}. Correct the file.") from error
    except ShapeError as error:
        raise SettingsError(
            f"{path} is not a settings file of Claude Code: {error}. Correct the file."
        ) from error


def installed_command(path: Path) -> list[str] | None:
    """Its words, None if none is installed there. Raises SettingsError."""
    for _, hook in hooks_in(settings_in(path)):
        if not is_ours(hook) or hook.get("type") != "command":
            continue
        return command_words(hook)
    return None


def absent(command: list[str]) -> list[str]:
    """The files it names that are not there: its interpreter, and the shim itself."""
    files = [command[0], *(word for word in command if word.endswith("shim.py"))]
    return [file for file in files if not os.access(file, os.R_OK)]


@dataclass(frozen=True, slots=True)
class Plugin:
    """id: such as `adsum@adsum`. hooks: as Claude Code keeps them, None where they are not found."""

    id: str
    hooks: Report | None

    @property
    def removal(self) -> str:
        return f"claude plugin uninstall {self.id}"

    def fault(self, setup: Setup) -> tuple[str, str] | None:
        """(what keeps it from reporting all, the next step)."""
        if setup.version < FIRST_WITH_STATUS:
            first = ".".join(map(str, FIRST_WITH_STATUS))
            what = f"The plugin {self.id} is for Claude Code {first} and newer."
            return what, f"Update Claude Code, or: {self.removal} && adsum hooks install"
        if self.hooks is None:
            what = f"The plugin {self.id} is switched on, but Claude Code holds no hooks of it."
            return what, f"claude plugin install {self.id}"
        if self.hooks.posted:
            what = f"The plugin {self.id} is an older one; its hooks go to a port that others can take."
            return what, f"claude plugin update {self.id}"
        if missing := self.hooks.missing(setup.version):
            what = f"The plugin {self.id} is an older one; it lacks: {', '.join(missing)}."
            return what, f"claude plugin update {self.id}"
        return None


def active_plugin(paths: Iterable[Path], user: Path) -> Plugin | None:
    """paths: settings files, those that decide first. user: that of the user.

    Raises SettingsError. A plugin that `--plugin-dir` gives a single run is written nowhere.
    """
    decided: dict[str, bool] = {}
    for path in paths:
        enabled = settings_in(path).get("enabledPlugins")
        for plugin, on in (enabled if isinstance(enabled, dict) else {}).items():
            decided.setdefault(str(plugin), on is True)
    for plugin, on in decided.items():
        if on and plugin.split("@")[0] == PLUGIN:
            return Plugin(plugin, _plugin_hooks(plugin, user.parent / "plugins"))
    return None


def _plugin_hooks(plugin: str, folder: Path) -> Report | None:
    """Of the copy that was installed last. The format is Claude Code's own, so nothing is relied on."""
    try:
        told: Any = json.loads((folder / "installed_plugins.json").read_bytes())
        copy = Path(told["plugins"][plugin][-1]["installPath"])
        report = inspect_hooks(copy / "hooks" / "hooks.json")
    except (OSError, ValueError, LookupError, TypeError, SettingsError):
        return None
    return report if report.exists else None


def faults_of(line: StatusLine, socket: Path) -> list[str]:
    """What keeps it from reporting to the collector at `socket`, or from being shown at all."""
    if line.socket is None:
        return []
    found = [
        f"the status line is run by {file}, which is gone"
        for file in line.programs
        if not Path(file).exists()
    ]
    if line.socket != str(socket):
        found.append(f"the status line reports to {line.socket}, but the collector's is {socket}")
    return found


def mode_as_it_is(path: Path) -> Mode:
    """What makes an install leave the slot as it is now. Raises SettingsError."""
    kind = inspect_hooks(path).statusline.kind
    return "fill" if kind == "filled" else "leave" if kind == "own" else "wrap"


def usual_mode(path: Path, parked: Path) -> Mode:
    """What an install does unless told: what was noted at parking, or wrap what the user has.

    Where hooks of ours stand beside a status line of the user's own, it was left on purpose.
    """
    with contextlib.suppress(FileNotFoundError):
        noted = parked.read_text()
        return "fill" if noted == "fill" else "leave" if noted == "leave" else "wrap"
    mode = mode_as_it_is(path)
    return "wrap" if mode == "leave" and not inspect_hooks(path).counts else mode
