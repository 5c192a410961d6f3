"""The contract of an agent: all that the collector asks of a package that knows one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec

from adsum_collector.agents.installer import Installer
from adsum_collector.agents.records import Lines, Past, Private, TranscriptFile, UsageRecord
from adsum_shared import WallClock
from adsum_shared.commands import Command, Decision, NotObeyedError
from adsum_shared.signals import AnySignal, RequestOpened, ToolRole
from adsum_shared.state import HostAgent, HostWitness

#: What a witness said and when we learned of it (ms) -> signals; none, if it means nothing to us.
#: Raises ValueError or msgspec.DecodeError for what the agent would never say.
Adapt = Callable[[bytes, int], Sequence[AnySignal]]


class Transcripts(NamedTuple):
    """file_of: by the file's path below its directory, parts joined with "/"; None for other files.

    read: (whole lines, whose file, context of the lines before or "", ms now, content of the file
    `NAME.meta.json` beside a subagent's or None, what of a struct may be kept in the context)
    -> Lines. Pure and total: nothing raises.
    history: (whole lines of a main file's head, and of its tail, which may be the same ones, whose)
    -> what they tell of the session as a whole; None if nothing. Pure and total as well.
    written: when the last of these lines that bears a time was written, ms; 0 if none does. The same.
    opening: (whole lines of a file's head, whose) -> the context of a file that is read from its tail
    on; "" if its tail can be read without one. The same.
    """

    file_of: Callable[[str], TranscriptFile | None]
    read: Callable[[Sequence[bytes], TranscriptFile, str, int, bytes | None, Private], Lines]
    history: Callable[[Sequence[bytes], Sequence[bytes], TranscriptFile], Past | None]
    written: Callable[[Sequence[bytes]], int]
    opening: Callable[[Sequence[bytes], TranscriptFile], str] = lambda _head, _whose: ""


NO_TRANSCRIPTS: Final = Transcripts(
    lambda _path: None,
    lambda _lines, _file, context, _now, _meta, _private: Lines([], context),
    lambda _head, _tail, _file: None,
    lambda _lines: 0,
)


class UsageMeter(Protocol):
    """Reads the lines of one file. faults: what should tell and does not: cause -> how often.

    context: what the lines so far leave to those that follow. whose: if they are another's than the
    file's path says.
    """

    faults: Counter[str]

    @property
    def context(self) -> str: ...
    @property
    def whose(self) -> TranscriptFile | None: ...

    def take(self, raws: Sequence[bytes | bytearray | memoryview], /) -> None:
        """Lines in the file's order; not all need tell anything."""
        ...

    def records(self) -> list[UsageRecord]:
        """Of all lines that were taken since this was asked last."""
        ...


class UsageLines(NamedTuple):
    """Which lines of a transcript tell what was used up, and whose that was.

    speaker: stands near the begin of a line that somebody said; follows: one of these does if the agent
    said it. meter: is given the context of the lines before, "" at a file's begin. usage: stands near the end of other lines that may tell all the same; any_usage: in any
    such line, however it is written. answer: in all that tell. own: how lines begin that a fork does
    not repeat. own_time: when one of these was written, ms. has_usage: whether one line tells.
    session_in: of a file's head, whose lines these are. begun_in: of the same, when the file was begun,
    ms: just then; or, if negative, then at the latest; None: it may be ever so old. used_by: by a
    file's path, whose it is that tells of nothing but usage; "" if only its lines say.
    """

    speaker: bytes
    follows: tuple[bytes, ...]
    usage: bytes
    any_usage: bytes
    answer: bytes
    own: tuple[bytes, ...]
    meter: Callable[[str], UsageMeter]
    has_usage: Callable[[bytes | bytearray | memoryview], bool]
    own_time: Callable[[bytes | bytearray | memoryview], int | None]
    begun_in: Callable[[bytes], int | None]
    session_in: Callable[[bytes], str | None] = lambda _head: None
    used_by: Callable[[str], TranscriptFile | None] = lambda _path: None


class HookFile(NamedTuple):
    """What stands of our hooks in one of an agent's files. state: `ok`, `missing` or `trouble`.

    note: for people. changed_at: ms, 0 if there is no file; whoever looks fills it in.
    """

    state: str
    note: str | None = None
    changed_at: int = 0


class OwnWitness(Protocol):
    """A witness that only one agent has. run: until it is cancelled; nothing raises."""

    async def run(self) -> None: ...
    def health(self, now: int, /) -> HostWitness: ...


class Asked(msgspec.Struct, frozen=True):
    """What a hook asks that waits for its answer. event: the agent's name of it.

    tool: or who else asks. given: its whole input. verbs: the decisions it takes. always: the rules
    that `always` would add, in words. whole: False: `given` stands for an input too long to be shown.
    extra: what else the adapter needs to answer. in_sight: a subagent's dialog shows as well while it
    is held. hidden: the terminal shows nothing to answer while it is held. role: of the tool whose
    permission is asked; None of what is no tool's permission. subject: what the tool is to be applied to,
    a command, a path or an address; None where the input says more than that, or where the agent's tool
    has none.
    """

    event: str
    session_id: str
    cwd: str
    tool: str
    given: dict[str, Any]
    verbs: tuple[Decision, ...]
    agent_id: str | None = None
    always: tuple[str, ...] = ()
    whole: bool = True
    extra: Any = None
    in_sight: bool = False
    hidden: bool = False
    role: ToolRole | None = None
    subject: str | None = None


class DecisionLine(Protocol):
    """Where a decision is handed over. read: returns once nobody waits for it any more.

    write, drain: hand it over; these raise OSError, RuntimeError.
    """

    async def read(self, most: int, /) -> bytes: ...
    def write(self, body: bytes, /) -> object: ...
    async def drain(self) -> None: ...


class HeardRequest(NamedTuple):
    """A request that a witness hears, in words for its owner's people elsewhere.

    opened: tells of it; its `request_id` is the agent's own name of it. line: to whoever asks.
    """

    asked: Asked
    opened: RequestOpened
    line: DecisionLine


class Desk(Protocol):
    """People elsewhere who decide. is_on: whether this machine's owner lets them.

    hold: returns once they have decided, or cannot any more. Raises SpoolUnavailable.
    """

    def is_on(self) -> bool: ...
    async def hold(self, agent: str, asking: HeardRequest, /) -> None: ...


class Surroundings(NamedTuple):
    """What a witness of an agent's own is given.

    accept: puts signals on disk; raises SpoolUnavailable. pids: session id -> process id, of all
    sessions that have not ended. started_of: when a process began, ms of wall clock; None if there is
    none. now: the same. desk: None: nobody elsewhere decides anything.
    """

    accept: Callable[[Sequence[AnySignal]], Awaitable[int]]
    pids: Callable[[], Mapping[str, int]]
    started_of: Callable[[int], int | None]
    now: WallClock
    desk: Desk | None = None


class SessionLine(Protocol):
    """Reaches a session that runs, by a way that only its agent has.

    status_of: what the session is at (`idle`, `busy`, `waiting`), and since when, ms; None if it is
    not reached. say: gives it a prompt; what is to be told of that beside that it was sent.
    interrupt: ends its turn. Both raise NotObeyedError: nothing was done.
    """

    def status_of(self, session_id: str, /) -> tuple[str, int] | None: ...
    async def say(self, session_id: str, text: str, /) -> str | None: ...
    async def interrupt(self, session_id: str, /) -> None: ...


class PastCall(NamedTuple):
    """A call that a transcript tells of. id: the agent's own. at: ms, 0 if unknown.

    asked: as its permission would have been asked.
    """

    id: str
    at: int
    asked: Asked


class PastDecision(NamedTuple):
    """What became of a call of which somebody was asked. id: the call's."""

    id: str
    accepted: bool


class Keyboard(NamedTuple):
    """How a prompt is typed into an agent's terminal; keys as tmux names them.

    stash: puts aside what stands in the input box, which comes back with the next submit. box: of a
    screen with its colours, the text in its input box; None if none is there. typed: what is typed
    for a text. Raises NotObeyedError: it would be no prompt. scrolled: whether the box shows only the
    end of its text. vim_mode: the mode of vim that the screen names; in NORMAL it names none.
    """

    newline: str
    submit: str
    stash: str
    interrupt: str
    box: Callable[[str], str | None]
    typed: Callable[[str], str]
    scrolled: Callable[[str], bool]
    vim_mode: Callable[[str], str | None]


class Registered(NamedTuple):
    """What a registry file says of the process it is named after.

    start: when that began, as the system counts it; "": not told. status: `idle` if it rests. at: since
    when, ms. cwd: where it was started. attended: in a terminal of its user's, by nothing else.
    attach: the words that open it in a terminal, of one that the agent keeps in none.
    """

    session_id: str
    pid: int
    start: str
    status: str | None
    at: int
    cwd: str
    attended: bool
    attach: tuple[str, ...] = ()


class RunWords(NamedTuple):
    """What of a run's command line and environment is repeated when its session is taken up again.

    lost: in words, what does not come back.
    """

    flags: tuple[str, ...]
    env: dict[str, str]
    lost: tuple[str, ...]


class Agent(ABC):
    """One kind of agent. A witness that it does not have stays as it is here: it says nothing.

    name: on every signal, in REST and in the path to which its hooks post. title: for people.
    resume: the command that takes a session up again, if its id follows. variable: the agent's own,
    which names the directories that hold its files; setting: ours, for the same. session_variable:
    in what a session runs, its id. usage: None if its
    transcripts do not tell what was used up. installer: None if hooks are not put into its settings
    for it. keyboard: None if nothing is typed into its terminal. control_note: what its owner is told
    of who agrees to control; "" if that needs no words. limits: of an agent that is known from its
    files alone, that and what they do not tell, for people.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    resume: ClassVar[str] = ""
    limits: ClassVar[str] = ""
    variable: ClassVar[str] = ""
    setting: ClassVar[str] = ""
    session_variable: ClassVar[str] = ""
    usage: ClassVar[UsageLines | None] = None
    installer: ClassVar[Installer | None] = None
    keyboard: ClassVar[Keyboard | None] = None
    control_note: ClassVar[str] = ""

    @property
    def words(self) -> HostAgent:
        return HostAgent(self.name, self.title, self.resume, self.limits)

    @abstractmethod
    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        """Where it keeps its files unless the settings say so."""

    # Of what an agent does not have, these are the answers.

    def types_in_vim(self, cwd: Path, env: Mapping[str, str]) -> bool:  # noqa: ARG002 - for those who can
        """Whether settings of a session with this directory and environment make its input box vim's."""
        return False

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:  # noqa: ARG002 - for those who have one
        """What a hook's body says; see Adapt."""
        raise ValueError(f"no hook of {self.title} reports here")

    @property
    def transcripts(self) -> Transcripts:
        return NO_TRANSCRIPTS

    def transcript_dirs(
        self,
        directories: Sequence[Path],  # noqa: ARG002 - for those who have some
        env: Mapping[str, str],  # noqa: ARG002 - as above
        home: Path,  # noqa: ARG002 - as above
    ) -> tuple[Path, ...]:
        """Below which `transcripts` knows files by their path."""
        return ()

    def registry(
        self,
        content: bytes,  # noqa: ARG002 - for those who have one
        seen: int,  # noqa: ARG002 - as above
        directory: Path | None = None,  # noqa: ARG002 - as above
    ) -> Sequence[AnySignal]:
        """What one file of `registry_dir(directory)` says of the process it is named after; see Adapt."""
        return []

    def registry_dir(self, directory: Path) -> Path | None:  # noqa: ARG002 - for those who have one
        """With a file `<process id>.json` for each process."""
        return None

    def statusline(self, content: bytes, seen: int) -> Sequence[AnySignal]:  # noqa: ARG002 - for those who have one
        """What it hands to a status line command; see Adapt."""
        return []

    def own_witnesses(
        self,
        directories: Sequence[Path],  # noqa: ARG002 - for those who have one
        around: Surroundings,  # noqa: ARG002 - as above
    ) -> Sequence[OwnWitness]:
        """What hears of its sessions beside hooks, transcripts, registry and status line."""
        return []

    def hook_file(self, directory: Path) -> Path | None:  # noqa: ARG002 - for those who have one
        """In which our hooks should stand, if they stand in a file."""
        return None

    def look_at_hooks(self, path: Path, port: int) -> HookFile:  # noqa: ARG002 - for those who have one
        """Whether those in `path` report to the collector on this port. Nothing raises."""
        return HookFile("ok")

    def asked(self, body: bytes) -> Asked | None:  # noqa: ARG002 - for those that can be answered
        """What a hook asks that can be answered; None for all else. Nothing raises."""
        return None

    def past(self, line: bytes) -> Sequence[PastCall | PastDecision]:  # noqa: ARG002 - as above
        """The calls and decisions that one line of a transcript tells of. Nothing raises."""
        return ()

    def answer(self, asked: Asked, command: Command) -> bytes:  # noqa: ARG002 - as above
        """What the hook prints for a decision. Raises NotObeyedError for one that is not sound."""
        raise NotObeyedError(f"{self.title} takes no answer")

    def inbox(self, entry: bytes) -> Path | None:  # noqa: ARG002 - for those who have one
        """The socket that takes messages, by a file of `registry_dir`. Nothing raises."""
        return None

    def message(self, text: str, by: str) -> bytes:  # noqa: ARG002 - for those who have one
        """What is written to its inbox. Raises NotObeyedError: it would be no message."""
        raise NotObeyedError(f"{self.title} takes no messages")

    def out_of_reach(self, session_id: str) -> str | None:  # noqa: ARG002 - for those who know
        """Why nothing that is said to this session, now or later, reaches it; None: it may."""
        return None

    def line_to(self, session_id: str) -> SessionLine | None:  # noqa: ARG002 - for those who have one
        """What reaches this session beside terminal and inbox. It may be asked in any thread."""
        return None

    def registered(self, content: bytes) -> Registered | None:  # noqa: ARG002 - for those who have one
        """The same file of `registry_dir`, for who acts on the process. Nothing raises."""
        return None

    def run_words(
        self,
        words: Sequence[str],  # noqa: ARG002 - as above
        env: Mapping[str, str],  # noqa: ARG002 - as above
        read: Callable[[str], bytes],  # noqa: ARG002 - as above
    ) -> RunWords:
        """What to repeat of a run. words: behind the program. Raises NotObeyedError.

        read: what the file of a path holds; it raises OSError, ValueError.
        """
        raise NotObeyedError(f"{self.title} cannot be suspended")

    def resuming(self, session_id: str, flags: Sequence[str], text: str | None) -> list[str]:  # noqa: ARG002 - as above
        """The words behind the program that take it up again, and say `text`. Raises NotObeyedError."""
        raise NotObeyedError(f"{self.title} cannot be resumed from here")

    def has_conversation(self, directory: Path, session_id: str) -> bool:  # noqa: ARG002 - as above
        """Whether there is anything to take up again."""
        return False
