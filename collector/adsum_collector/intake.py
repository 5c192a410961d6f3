"""The ways in: what witnesses hear, and what sessions of this machine report of their own work.

A signal is filtered by privacy, encoded and made durable. A report comes at the socket, where nobody needs a
token, as the system tells whose the other end is; a hub cannot see that, so tokens for it are given here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from adsum_collector.agents.base import Adapt
from adsum_collector.agents.records import Private
from adsum_collector.errors import SpoolUnavailable
from adsum_collector.processes import state_changes
from adsum_collector.spool.spool import Spool
from adsum_collector.state_dir import HasHostId
from adsum_shared import WallClock
from adsum_shared.commands import (
    HEARTBEAT,
    NOTES_MAX,
    REPORT_FIELD,
    REPORT_TTL_MS,
    ReportError,
    SelfReport,
    make_token,
    require_sound,
    require_text,
)
from adsum_shared.private_files import open_private, write_private
from adsum_shared.signals import (
    DEFAULT_AGENT,
    Alive,
    AnySignal,
    WorkReported,
    decode_signal,
    encode_signal,
    is_session_id,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


log = logging.getLogger(__name__)

T = TypeVar("T")

#: Larger bodies are understood in a thread, while other sessions' hooks are answered.
MOST_BYTES_ON_LOOP = 64 << 10


async def understand(read: Callable[[bytes, int], T], raw: bytes, now: int) -> T:
    """What `read` makes of it; `read` keeps no state. Raises what that raises."""
    if len(raw) > MOST_BYTES_ON_LOOP:
        return await asyncio.to_thread(read, raw, now)
    return read(raw, now)


class Intake:
    """private: what of a signal may leave this machine. agent: whose witnesses report here."""

    def __init__(self, spool: Spool, private: Private, agent: str = DEFAULT_AGENT) -> None:
        self.spool, self.private, self._agent = spool, private, agent
        #: given all that comes in; returns at once
        self.hear: Callable[[Sequence[AnySignal]], None] = lambda _signals: None
        #: signals that are on disk
        self.accepted = 0
        #: signals of a session that has no usable id
        self.left_out = 0

    async def accept(
        self,
        signals: Sequence[AnySignal],
        message_id: str | None = None,
        state: Mapping[str, bytes | None] | None = None,
    ) -> int:
        """The last signal's number in the spool, once it is on disk. Raises SpoolUnavailable.

        state: what is true with these signals, kept in the same commit.

        Signals that every hub would drop for their session's id are left out here. Their sender is
        answered as for any others: a refusal shows in the user's terminal and mends nothing.
        """
        if not all(is_session_id(signal.session_id) for signal in signals):
            signals = self._usable(signals)
        if not signals and not state:
            return self.spool.last_seq
        # before the disk: whoever decides meanwhile must not decide what is over
        self.hear(signals)
        if self._agent != DEFAULT_AGENT:
            signals = [msgspec.structs.replace(signal, agent=self._agent) for signal in signals]
        number = await self.spool.append(
            [encode_signal(self.private(signal)) for signal in signals],
            message_id=message_id,
            state={**(state or {}), **state_changes(signals, self.spool.state)},
        )
        self.accepted += len(signals)
        return number

    def _usable(self, signals: Sequence[AnySignal]) -> Sequence[AnySignal]:
        usable = [signal for signal in signals if is_session_id(signal.session_id)]
        if not self.left_out:
            wrong = next(s.session_id for s in signals if not is_session_id(s.session_id))
            log.warning(
                "signals are left out: a session id of %d characters, %.40r, is none (said once; "
                "/readyz counts them)",
                len(wrong),
                wrong,
            )
        self.left_out += len(signals) - len(usable)
        return usable


class HookDoor(NamedTuple):
    """Where one agent's hooks come in, by whichever way.

    heard: given what a hook said once it has its answer; returns at once.
    """

    hook: Adapt
    intake: Intake
    heard: Callable[[Sequence[AnySignal]], None] = lambda _signals: None


KEY_FILE: Final = "report-key"
VERSION: Final = 1
#: Of what a hub hands on: a report's longest fields, as JSON escapes them.
MOST_BYTES: Final = 64 << 10
_OURS = re.compile(rb'\{"v": ?\d+, ?"kind": ?"report"')
_ID = re.compile(r"[0-9a-f]{16,32}")
NO_SESSION = "No session {} is known to live here."
NO_SESSION_STEP = "Name the one that reports: adsum report --session ID"


class ReportMessage(msgspec.Struct, frozen=True):
    """A line at the socket. id: random, hex. report: None: a token is asked for."""

    v: int
    kind: str
    id: str
    session_id: str
    agent: str = ""
    report: SelfReport | None = None


class ReportReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """error: nothing was kept; next: what to do about it. retry: the same may be taken later."""

    ok: bool
    host_id: str = ""
    token: str | None = None
    error: str | None = None
    next: str | None = None
    retry: bool = False


def is_report(line: bytes) -> bool:
    return _OURS.match(line) is not None


class ReportIntake:
    """intakes: by the agent's name. lives: whether a session is known here. machine: this one.

    refused: why -> how often.
    """

    def __init__(
        self,
        state_dir: Path,
        intakes: Mapping[str, Intake],
        *,
        machine: HasHostId,
        lives: Callable[[str], bool],
        now: WallClock,
    ) -> None:
        self._file = state_dir / KEY_FILE
        self._intakes, self._machine, self._lives, self._now = intakes, machine, lives, now
        self._key: Ed25519PrivateKey | None = None
        self.refused: Counter[str] = Counter()

    @property
    def public(self) -> str | None:
        """By which a hub checks tokens; None: no session has one, so none is heard of at a hub."""
        if self._key is None and self._file.exists():
            self._key = self._load()
        return None if self._key is None else self._key.public_key().public_bytes_raw().hex()

    async def answer(self, line: bytes) -> bytes:
        """What a line at the socket is answered."""
        try:
            return msgspec.json.encode(await self._take(line))
        except SpoolUnavailable as error:
            told = ReportReply(ok=False, error=f"It was not kept: {error}", retry=True)
            return msgspec.json.encode(told)
        except (ReportError, ValueError, RecursionError, OSError) as error:
            self.refused[type(error).__name__] += 1
            cause = error.cause if isinstance(error, ReportError) else str(error)
            step = error.step if isinstance(error, ReportError) else None
            return msgspec.json.encode(ReportReply(ok=False, error=cause, next=step))

    async def _take(self, line: bytes) -> ReportReply:
        """Raises ReportError, ValueError, SpoolUnavailable, OSError."""
        asked = msgspec.json.decode(line, type=ReportMessage)
        if asked.v != VERSION:
            cause = f"It is of version {asked.v}, and this collector speaks {VERSION}."
            raise ReportError(cause, "Upgrade Adsum, then restart the collector.")
        self._require_known(asked.session_id)
        if asked.report is None:
            token = make_token(self._own_key(), self._machine.host_id, asked.session_id)
            return ReportReply(ok=True, host_id=self._machine.host_id, token=token)
        require_sound(asked.report)
        if not _ID.fullmatch(asked.id):
            raise ReportError("Its id is none.", "Give 16 to 32 random hex digits.")
        intake = self._intakes.get(asked.agent or DEFAULT_AGENT)
        if intake is None:
            cause = f"No agent {asked.agent[:40]!r} is known here."
            raise ReportError(cause, f"Name one of {', '.join(self._intakes)}.")
        now, said = self._now(), asked.report
        signal = WorkReported(
            session_id=asked.session_id,
            at=now,
            seen=now,
            source="hub",  # no witness: nobody's silence is broken by it
            report_id=asked.id,
            status=said.status,
            issue=said.issue,
            notes=said.notes,
            by=said.by,
        )
        await intake.accept([signal], asked.id)
        return ReportReply(ok=True, host_id=self._machine.host_id)

    def _require_known(self, session_id: str) -> None:
        if not (is_session_id(session_id) and self._lives(session_id)):
            raise ReportError(NO_SESSION.format(ascii(session_id[:80])), NO_SESSION_STEP)

    async def relay(self, fields: Mapping[bytes, bytes], age_ms: int) -> None:
        """What a hub hands on, of a session whose token it was shown, or from an operator.

        Nobody signs it: whoever may write there could write what it becomes into Redis anyway.
        """
        try:
            raw = fields[REPORT_FIELD]
            if len(raw) > MOST_BYTES or not -REPORT_TTL_MS <= age_ms <= REPORT_TTL_MS:
                raise ReportError("It is too long, or too old.", "")
            signal, source = decode_signal(raw), "hub"
            if isinstance(signal, WorkReported):
                said = SelfReport(signal.status, signal.issue, signal.notes, signal.by)
                require_sound(said)
            elif isinstance(signal, Alive) and signal.event == HEARTBEAT:
                require_text("note", signal.note, NOTES_MAX)
                source = "hook"  # of the user's own making, and a sign of life: a hook says so
            else:
                raise ReportError("It is no report.", "")
            self._require_known(signal.session_id)
            intake = self._intakes.get(signal.agent)
            if intake is not None:
                now = self._now()
                heard = msgspec.structs.replace(signal, at=now, seen=now, source=source)
                await intake.accept([heard])
        except (ReportError, ValueError, RecursionError, SpoolUnavailable) as error:
            self.refused[type(error).__name__] += 1
            log.warning("a report that a hub handed on is not kept: %s", error)

    def _own_key(self) -> Ed25519PrivateKey:
        """Made when it is first wanted; of two makers the first wins. Raises OSError, ReportError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if self.public is None:
            raw = Ed25519PrivateKey.generate().private_bytes_raw()
            write_private(self._file, raw.hex().encode(), replace=self._file.exists())
        if self.public is None or self._key is None:
            cause = f"{self._file}, the key of tokens, cannot be used."
            raise ReportError(cause, "Remove it, and ask again.")
        return self._key

    def _load(self) -> Ed25519PrivateKey | None:
        """None: the file is no key that only this user has, so it signs nothing."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            with os.fdopen(open_private(self._file, os.O_RDONLY), "rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    return None
                return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(file.read(100).decode()))
        except (OSError, ValueError):
            return None
