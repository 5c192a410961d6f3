"""Knows how hooks of ours stand in an agent's settings, and how they should: `Setup`."""

import asyncio
import contextlib
import logging
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

import adsum_collector
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum_collector.agents import known_agents
from adsum_collector.agents.base import Agent
from adsum_collector.agents.installer import (
    FORM_TIMEOUT_S,
    HOOK_PATH,
    SHIM_NAME,
    Change,
    Installation,
    Installer,
    Mode,
    ProgramNotFoundError,
    Report,
    SettingsFiles,
    StatusLine,
    Target,
    Transport,
    Version,
)
from adsum_collector.agents.settings_file import load_receipt
from adsum_collector.control.consent import read_consent
from adsum_collector.listening.sockets import others_here, stranger_on
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import held_token, renew_token, running_port, token_of
from adsum_shared import AdsumError
from adsum_shared.private_files import write_private
from adsum_shared.signals import DEFAULT_AGENT

log = logging.getLogger(__name__)

Wanted = Literal["auto", "http", "shim"]


class InstalledFor(msgspec.Struct, frozen=True):
    """The agent's program and version at the last install that found it."""

    version: Version | None = None
    program: str | None = None


@dataclass(frozen=True)
class Setup:
    """One settings file, and the collector its hooks should report to.

    slot: what an install does with the status line; None: as it finds it.
    wanted: how hooks are to be sent; None: as was wanted last. agent: one that has an installer.
    directory: the one of its directories that this is of; None: the usual one. mends: a collector
    that runs puts them right by itself. form_timeout_s: see `Target`.
    """

    path: Path
    state_dir: Path
    port: int
    program: Path | None = None
    slot: Mode | None = None
    wanted: Wanted | None = None
    agent: Agent = field(default_factory=lambda: known_agents()[0])
    directory: Path | None = None
    mends: bool = False
    form_timeout_s: int = FORM_TIMEOUT_S

    @property
    def installer(self) -> Installer:
        assert self.agent.installer is not None  # noqa: S101 - no Setup is made without
        return self.agent.installer

    @property
    def files(self) -> SettingsFiles:
        home = self.directory or self.agent.directories(os.environ, Path.home())[0]
        return self.installer.files(home, Path.cwd())

    @property
    def is_default(self) -> bool:
        return self.agent.name == DEFAULT_AGENT

    @property
    def command(self) -> str:
        """How to put its hooks in."""
        return "adsum hooks install" + ("" if self.is_default else f" --agent {self.agent.name}")

    @property
    def url(self) -> str:
        """Where its hooks are posted. Unlike `target` it mints no token."""
        path = HOOK_PATH if self.is_default else f"{HOOK_PATH}/{self.agent.name}"
        return f"http://127.0.0.1:{self.port}{path}"

    @cached_property
    def found(self) -> tuple[Version | None, Path | None]:
        """(version, program) of the agent. Raises ProgramNotFoundError for a wrong one.

        A program that is not on PATH, as in a cron job, is looked for where it was at the last install.
        """
        look, home = self.installer.program, Path.home()
        version, program = look(self.program, os.environ, home)
        kept = self._installed_for.program
        if version is None and self.program is None and kept and os.access(kept, os.X_OK):
            with contextlib.suppress(ProgramNotFoundError):
                return look(Path(kept), os.environ, home)
        return version, program

    @cached_property
    def known_version(self) -> Version | None:
        """What the program says; else the newest that hooks were installed for or that runs now."""
        directory = self.directory or self.agent.directories(os.environ, Path.home())[0]
        guesses = self._installed_for.version, self.installer.running_version(directory)
        return self.found[0] or max(filter(None, guesses), default=None)

    @property
    def version(self) -> Version:
        return self.known_version or self.installer.assumed

    @cached_property
    def _installed_for(self) -> InstalledFor:
        try:
            return msgspec.json.decode(self._own("installed-for").read_bytes(), type=InstalledFor)
        except (OSError, msgspec.DecodeError):
            return InstalledFor()

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
            holds=self.holds,
            form_timeout_s=self.form_timeout_s,
        )

    @property
    def holds(self) -> bool:
        """Whether the machine's owner lets requests be decided from elsewhere."""
        return read_consent(self.state_dir).at(time.time()) != "off"

    @property
    def transport(self) -> Transport:
        return self.way[0]

    @cached_property
    def way(self) -> tuple[Transport, str]:
        """How hooks are to be sent, and why so."""
        if not self.installer.posts:
            return "shim", f"{self.agent.title} posts none"
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
        return self._own("parked")

    def _own(self, name: str) -> Path:
        """Return the path of a note about the hooks in this settings file."""
        whose = zlib.crc32(os.fsencode(self.path))
        suffix = "" if self.is_default else f"-{self.agent.name}-{whose:08x}"
        return self.state_dir / "hooks" / f"{name}{suffix}"

    def install(self, *, dry_run: bool) -> Change:
        if self.stranger and not dry_run:
            renew_token(self.state_dir)
        slot, program = self.slot or self.usual_mode(), self.found[1]
        wanted = Installation(self.path, self.state_dir, self.target, self.version, slot, program)
        change = self.installer.install(replace(wanted, dry_run=dry_run))
        if not dry_run and self.found[0]:
            noted = InstalledFor(self.found[0], str(program) if program else None)
            write_private(self._own("installed-for"), msgspec.json.encode(noted))
        if not dry_run and self.wanted == "auto":
            self._wish.unlink(missing_ok=True)
        elif not dry_run and self.wanted is not None:
            write_private(self._wish, self.wanted.encode())
        return change

    def remove(self, *, dry_run: bool) -> Change:
        return self.installer.remove(self.path, self.state_dir, dry_run=dry_run)

    def inspect(self) -> Report:
        """Raises SettingsError."""
        return self.installer.inspect(self.path)

    def faults(self, report: Report, *, all_files: bool = True) -> list[str]:
        """What keeps the hooks from reporting, as sentences for people.

        all_files: also what is checked apart, by `Installer.hindrance`, of every settings file.
        """
        found = []
        if not report.counts:
            return ["no hooks of Adsum are in it"]
        if report.ports - {self.port}:
            ports = ", ".join(map(str, sorted(report.ports)))
            found.append(f"they post to port {ports}, but the collector's is {self.port}")
        found += self._sent_astray(report)
        found += self._held_wrong(report)
        if report.tokens - {f"Bearer {held_token(self.state_dir)}"}:
            found.append("they carry another token than this collector's")
        if report.untrusted:
            skips = f"not trusted, so {self.agent.title} skips them"
            found.append(f"{skips}: {', '.join(report.untrusted)}")
        if report.doubled:
            found.append(f"more than once: {', '.join(report.doubled)}")
        if report.missing(self.version):
            found.append(f"missing: {', '.join(report.missing(self.version))}")
        if report.unwanted(self.version):
            found.append(f"no longer wanted: {', '.join(report.unwanted(self.version))}")
        if all_files:
            found += report.faults()
        return found + faults_of(report.statusline, self.socket)

    def _held_wrong(self, report: Report) -> list[str]:
        """Hooks that wait for decisions where the owner has not agreed, or do not where they have."""
        wait = set(report.holdable(self.version)) if self.holds else set()
        lacking, idle = sorted(wait - report.held), sorted(report.held) if not self.holds else []
        is_on = f"control is on, and these do not wait for decisions: {', '.join(lacking)}"
        is_off = f"control is off, and these wait for decisions: {', '.join(idle)}"
        seconds = report.form_timeout_s
        found = [*([is_on] if lacking else []), *([is_off] if idle else [])]
        if seconds is not None and seconds != self.form_timeout_s:
            takes = f"hold_form_s takes {self.form_timeout_s} s"
            found.append(f"the hook of forms times out after {seconds:g} s, but {takes}")
        return found

    def _sent_astray(self, report: Report) -> list[str]:
        """What goes where others may listen, or where nobody of ours does."""
        found = []
        if report.posted and self.stranger:
            found.append(
                f"the user {self.stranger} listens on port {self.port} and is handed their token "
                "and what they tell"
            )
        elif astray := report.astray(self.transport):
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
        report = self.inspect()
        return self.port in report.ports or str(self.socket) in report.sockets

    def sends(self, report: Report) -> str:
        """How what stands in the file goes, for people."""
        if report.posted:
            return f"they post to port {self.port} ({self.way[1]})"
        return f"the shim hands them on to {self.socket} ({self.way[1]})"

    def is_complete(self) -> bool:
        report = self.inspect()
        return bool(report.counts) and not self.faults(report)

    def mode_as_it_is(self) -> Mode:
        """What makes an install leave the slot as it is now. Raises SettingsError."""
        kind = self.inspect().statusline.kind
        return "fill" if kind == "filled" else "leave" if kind == "own" else "wrap"

    def usual_mode(self) -> Mode:
        """What an install does unless told: what was noted at parking, or wrap what the user has.

        Where hooks of ours stand beside a status line of the user's own, it was left on purpose.
        """
        with contextlib.suppress(FileNotFoundError):
            noted = self.parked.read_text()
            return "fill" if noted == "fill" else "leave" if noted == "leave" else "wrap"
        mode = self.mode_as_it_is()
        return "wrap" if mode == "leave" and not self.inspect().counts else mode


#: Between two looks at the hooks, and how often they are put right in a row: whoever takes them out
#: again and again, another Adsum for instance, is not fought over the user's settings.
MEND_S = 60.0
MENDS_MOST = 3


def mend(setup: Setup) -> bool:
    """Puts hooks of ours right that were installed here. Whether anything was to be done.

    Not where Adsum itself took them out: by `adsum hooks remove` no receipt is left, and by the end of
    `adsum up` they are parked. Raises SettingsError, ProgramNotFoundError, OSError.
    """
    installed = load_receipt(setup.path, setup.state_dir) is not None
    if not installed or setup.parked.exists() or setup.is_complete():
        return False
    setup.install(dry_run=False)
    return True


async def keep_mended(state_dir: Path) -> None:
    """As long as it runs. Only with its owner's agreement, the setting `mend_hooks`."""
    mended: Counter[Path] = Counter()
    while True:
        await asyncio.sleep(MEND_S)
        try:
            for setup in await asyncio.to_thread(setups_for, "user", state_dir):
                count = mended[setup.path]
                if count < MENDS_MOST and await asyncio.to_thread(mend, setup):
                    mended[setup.path] += 1
                    more = "; not again" if count + 1 == MENDS_MOST else ""
                    log.warning("the hooks in %s were not right, and are now%s", setup.path, more)
        except (AdsumError, OSError) as error:
            log.warning("the hooks could not be put right: %s", error)


def leave_port(state_dir: Path) -> None:
    """Has the shim send what is posted to the collector's port, if another user listens there."""
    try:
        for setup in setups_for("user", state_dir):
            if setup.stranger and setup.port in setup.inspect().ports:
                setup.install(dry_run=False)
                log.warning(
                    "switched the hooks in %s from port %d to the shim: another user listens there",
                    setup.path,
                    setup.port,
                )
    except (AdsumError, OSError) as error:
        log.warning("the hooks could not be taken off the port: %s", error)


def put_back(state_dir: Path) -> bool:
    """Hooks of ours that wait wait no more, if control has ended by itself. Whether any did.

    Not where Adsum itself took them out; see `mend`. Raises SettingsError, ProgramNotFoundError,
    OSError.
    """
    consent = read_consent(state_dir)
    if consent.level == "off" or consent.until is None or consent.at(time.time()) != "off":
        return False
    waiting = [each for each in setups_for("user", state_dir) if each.inspect().held]
    ours = [
        each
        for each in waiting
        if load_receipt(each.path, state_dir) is not None and not each.parked.exists()
    ]
    for setup in ours:
        setup.install(dry_run=False)
    return bool(ours)


async def keep_put_back(state_dir: Path) -> None:
    """As long as it runs: who agreed for some hours has agreed that it is undone after them."""
    while True:
        await asyncio.sleep(MEND_S)
        try:
            if await asyncio.to_thread(put_back, state_dir):
                log.info("control is over, so no hook waits any more")
        except (AdsumError, OSError) as error:
            log.warning("control is over, and hooks still wait: %s", error)


def setup_for(
    scope: str, state_dir: Path | None, program: Path | None = None, agent: str | None = None
) -> Setup:
    """Of the default agent, unless one is named."""
    return setups_for(scope, state_dir, program, agent=agent or DEFAULT_AGENT)[0]


def setups_for(
    scope: str,
    state_dir: Path | None,
    program: Path | None = None,
    statusline: bool | None = None,  # noqa: FBT001 - as the command line gives it
    transport: str | None = None,
    agent: str | None = None,
) -> list[Setup]:
    """Of all agents that are on this machine, unless one is named; of the default if none is there.

    program: the named one's, or the default's. statusline: True for one even where the user has
    none, False for none of ours.
    """
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
    # A collector that runs knows its port better than this command's environment does.
    port = running_port(settings.state_dir) or settings.collector_port
    slot = "leave" if scope == "project" else slot
    able = {each.name: each for each in known_agents() if each.installer is not None}
    if agent is not None and agent not in able:
        raise CommandError(f"--agent is one of {', '.join(able)}, not {agent!r}.", Exit.USAGE)
    found = []
    wanted_agents = able if agent is None else [agent]
    placed = {
        name: list(_placed(able[name], settings, named=name == agent)) for name in wanted_agents
    }
    if program is not None or not any(placed.values()):
        name = agent or DEFAULT_AGENT
        placed[name] = list(_placed(able[name], settings, named=True))
    for name, places in placed.items():
        each, own = able[name], program if name in (agent, DEFAULT_AGENT) else None
        for directory, files in places:
            path = files.user if scope == "user" else next(iter(files.project), None)
            if path is not None:
                about = (path, settings.state_dir, port, own, slot, wanted[transport])
                more = each, directory, settings.mend_hooks, settings.form_timeout_s
                found.append(Setup(*about, *more))
    if not found:
        raise CommandError(
            f"--scope project is not for {able[agent or DEFAULT_AGENT].title}.", Exit.USAGE
        )
    return found


def _placed(
    agent: Agent, settings: CollectorSettings, *, named: bool
) -> Iterator[tuple[Path, SettingsFiles]]:
    """Of an agent, the directories in which hooks belong: none where it is not on this machine.

    named: it is the one that is asked for, and so taken for granted.
    """
    directories, installer = settings.directories_of(agent), agent.installer
    if installer is None:
        return
    there = [each for each in directories if each.is_dir()]
    given = there or named
    if given or installer.program(None, os.environ, Path.home())[1]:
        there = there if there and installer.several else [*directories[:1]]
    for directory in there:
        yield directory, installer.files(directory, Path.cwd())


def absent(command: Sequence[str]) -> list[str]:
    """The files it names that are not there: its interpreter, and the shim itself."""
    files = [command[0], *(word for word in command if word.endswith("shim.py"))]
    return [file for file in files if not os.access(file, os.R_OK)]


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
