"""The contract of an agent's installer: all that the command line asks about hooks in its settings."""

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol

from adsum_shared import AdsumError

Version = tuple[int, ...]
#: http: posted to the collector's port, but for what only a command may tell. shim: all go by the shim.
Transport = Literal["http", "shim"]
#: leave: not ours to touch. wrap: the user's own, if there is one. fill: the empty slot as well.
#: The last only on demand: a status line that prints nothing still takes a row of the screen, and
#: the hint "? for shortcuts" gives way to it (measured on 2.1.330).
Mode = Literal["leave", "wrap", "fill"]

HOOK_PATH: Final = "/api/live/hook"
SHIM_NAME: Final = "adsum_collector/shim.py"
#: How the word begins by which the shim waits for a decision, and for how many seconds the agent lets it.
HOLD_WORD: Final = "--hold"
HOLD_TIMEOUT_S: Final = 86_400
FORM_TIMEOUT_S: Final = 310
_BEARER = re.compile(r"Bearer [^\"]+")


class SettingsError(AdsumError):
    """The settings file cannot be read or written as it is. The text says what to do next."""


class ProgramNotFoundError(AdsumError):
    """The program named by the user does not say that it is the agent's."""


class AgentsError(Exception):
    """The program gives no list of its sessions. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where hooks and the status line report to, and by which programs of this installation.

    holds: the hooks of requests wait for decisions from elsewhere, as the machine's owner wants it.
    form_timeout_s: of the one that waits for a form's.
    """

    port: int
    token: str
    python: str
    shim: Path
    socket: Path
    transport: Transport = "shim"
    holds: bool = False
    form_timeout_s: int = FORM_TIMEOUT_S

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{HOOK_PATH}"


@dataclass(frozen=True, slots=True)
class Installation:
    """What is to stand in one settings file.

    state_dir: where the file as it was before is remembered. statusline: what becomes of the slot.
    program: the agent's, where it was found.
    """

    path: Path
    state_dir: Path
    target: Target
    version: Version
    statusline: Mode = "leave"
    program: Path | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class StatusLine:
    """What the one slot for a status line holds.

    kind: none; other, which is not for us; own, the user's; wrapped, the user's in our wrapper;
    filled, our wrapper alone; altered, our wrapper in a shape we never wrote. command: the user's.
    words: how our wrapper is run.
    """

    kind: Literal["none", "other", "own", "wrapped", "filled", "altered"]
    command: str | None = None
    words: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The Python and the file of our wrapper, which must be there or the line goes dark."""
        return (self.words[1], self.words[4]) if self.words else ()

    @property
    def socket(self) -> str | None:
        """Where it reports to; None: it is not ours."""
        return self.words[5] if self.words else None


@dataclass(frozen=True, slots=True)
class Report:
    """What a settings file holds of ours. counts: event -> how many of our hooks.

    posted: the events that go to a port. sockets: where those go that the shim hands on.
    untrusted: the events whose hooks the agent skips until they are trusted.
    shared: others on this machine may read the file, and so the token in it. disabled: it lets no
    hook run. command: the words of the first of ours that runs the shim. held: events whose hooks
    wait for decisions. form_timeout_s: of the one that waits for a form's; None: there is none.
    """

    path: Path
    exists: bool
    counts: dict[str, int]
    ports: frozenset[int] = frozenset()
    posted: frozenset[str] = frozenset()
    sockets: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    untrusted: tuple[str, ...] = ()
    shared: bool = False
    disabled: bool = False
    statusline: StatusLine = StatusLine("none")
    command: tuple[str, ...] | None = None
    held: frozenset[str] = frozenset()
    form_timeout_s: float | None = None

    @property
    def doubled(self) -> list[str]:
        return [event for event, count in self.counts.items() if count > 1]

    def wanted(self, version: Version) -> Sequence[str]:  # noqa: ARG002 - for those whose versions differ
        """The events that should be hooked."""
        return list(self.counts)

    def holdable(self, version: Version) -> Sequence[str]:  # noqa: ARG002 - for those that can be answered
        """The events whose hooks should wait where control is on."""
        return []

    def faults(self) -> list[str]:
        """What else in this file keeps the hooks from running, as sentences for people."""
        return []

    def astray(self, transport: Transport) -> list[str]:
        """The events that are posted and should not be."""
        return sorted(self.posted) if transport == "shim" else []

    def missing(self, version: Version) -> list[str]:
        return [event for event in self.wanted(version) if event not in self.counts]

    def unwanted(self, version: Version) -> list[str]:
        wanted = self.wanted(version)
        return [event for event in self.counts if event not in wanted]


@dataclass(frozen=True, slots=True)
class Change:
    """What an install or a removal did, or would do. None: no file.

    closes: others can read the file until then, and not the token that it will hold.
    trusted: how many hooks the agent was told to trust.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    backup: Path | None = None
    closes: bool = False
    trusted: int = 0

    @property
    def needed(self) -> bool:
        return self.before != self.after or self.closes or self.trusted > 0

    def diff(self) -> str:
        """A unified diff with the token masked: it may end up in a terminal's scrollback."""
        before, after = (
            _BEARER.sub("Bearer …", (raw or b"").decode("utf-8", "replace")).splitlines()
            for raw in (self.before, self.after)
        )
        name = str(self.path)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """The settings that apply in one directory. project: the user's own ones, then the shared.

    hooked: where hooks of ours may stand, each file once: a home can be a project as well.
    """

    user: Path
    hooked: tuple[Path, ...]
    project: tuple[Path, ...] = ()
    managed: tuple[Path, ...] = ()

    @property
    def deciding(self) -> tuple[Path, ...]:
        """All of them, those first whose word counts for more."""
        return (*self.managed, *self.project, self.user)


class Plugin(Protocol):
    """Brings the same hooks by another way. hooks: as the agent keeps them, None if not found."""

    @property
    def id(self) -> str: ...
    @property
    def hooks(self) -> Report | None: ...
    @property
    def removal(self) -> str:
        """The command that takes it out."""

    def fault(self, version: Version) -> tuple[str, str] | None:
        """(what keeps it from reporting all, the next step)."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """A living session as the agent itself lists it. status: idle, busy, waiting, or its own word."""

    session_id: str | None
    pid: int | None
    status: str | None
    waiting_for: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return ", ".join(word for word in (self.status or "running", self.waiting_for) if word)


class Installer(ABC):
    """Knows one agent's settings and program. What reads or writes settings raises SettingsError.

    posts: its hooks can be sent to a port. shows: it has a slot for a status line. several: hooks
    stand in each of its directories, not in the first alone. assumed: the version considered where
    none is found. lists: the program's words that list its sessions, and the first version that knows
    them. probe: a hook's body that says nothing of any session. asks: what whoever agrees to an
    install agrees to beside it; where there is anything, nothing is installed without a yes.
    heard: which sessions report once hooks are installed.
    """

    posts: ClassVar[bool] = False
    shows: ClassVar[bool] = False
    several: ClassVar[bool] = False
    asks: ClassVar[str] = ""
    heard: ClassVar[str] = "Sessions that run now report from their next event on."
    assumed: ClassVar[Version] = (0,)
    lists: ClassVar[tuple[str, Version] | None] = None
    probe: ClassVar[bytes]

    @abstractmethod
    def files(self, directory: Path, cwd: Path) -> SettingsFiles:
        """Those of one of its directories, for a session in `cwd`.

        user: where hooks are installed. project: the first is where they are for one alone.
        """

    @abstractmethod
    def program(
        self, chosen: Path | None, env: Mapping[str, str], home: Path
    ) -> tuple[Version | None, Path | None]:
        """(version, program); (None, program or None) when it is not known.

        Raises ProgramNotFoundError when the program was `chosen`: a wrong one is never guessed at.
        """

    def running_version(self, directory: Path) -> Version | None:  # noqa: ARG002 - for those whose sessions say it
        """The newest version of the sessions that run, None if none says it."""
        return None

    @abstractmethod
    def inspect(self, path: Path) -> Report: ...

    @abstractmethod
    def install(self, wanted: Installation) -> Change:
        """Idempotent: hooks of an earlier install are replaced."""

    @abstractmethod
    def remove(self, path: Path, state_dir: Path, *, dry_run: bool) -> Change: ...

    # Of what an agent does not have, these are the answers.

    def plugin(self, files: SettingsFiles) -> Plugin | None:  # noqa: ARG002 - for those who have plugins
        """The one of ours that is switched on."""
        return None

    def hindrance(self, files: SettingsFiles, url: str) -> tuple[str, str] | None:  # noqa: ARG002 - for those who have any
        """(what in any settings keeps hooks from running or from `url`, the next step)."""
        return None

    def switched_off(self, files: SettingsFiles) -> Path | None:  # noqa: ARG002 - for those who can
        """The one of these that switches hooks off, as far as they can be read."""
        return None

    def sessions(self, program: Path, folders: Sequence[Path], home: Path) -> list[Theirs]:  # noqa: ARG002 - for those who list them
        """The living ones of each of its directories. Raises AgentsError."""
        return []
