"""`adsum report`, typed by an agent: it tells this machine's collector how its session's work stands."""

import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from adsum.config import read_settings
from adsum.outcome import CommandError, Exit
from adsum.text.saying import put, put_json, say
from adsum_collector.agents import known_agents
from adsum_collector.report_intake import VERSION, ReportMessage, ReportReply
from adsum_collector.settings import CollectorSettings
from adsum_collector.sockets import SOCKET_FILE
from adsum_shared.reporting import ReportError, SelfReport, require_sound

TIMEOUT_S = 5.0
MOST_REPLY = 64 << 10


class RunningSession(NamedTuple):
    """id: as its agent calls it. agent: which one that is; empty: the default one."""

    id: str
    agent: str = ""


def session_in(env: Mapping[str, str], named: str | None = None) -> RunningSession:
    """The session that this command runs in, or the one that is named. Raises CommandError."""
    agents = [each for each in known_agents() if each.session_variable]
    found = [
        RunningSession(env[each.session_variable], each.name)
        for each in agents
        if env.get(each.session_variable)
    ]
    if named is not None:
        return next((each for each in found if each.id == named), RunningSession(named))
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(f"{each.agent} {each.id}" for each in found)
        cause = f"One agent runs in another here: {which}."
        raise CommandError(f"{cause} Say which one reports: --session ID", Exit.USAGE)
    names = " nor ".join(each.session_variable for each in agents)
    raise CommandError(
        f"This does not run in a session: neither {names} is set. Run it in one, or name one that "
        "lives on this machine: --session ID",
        Exit.USAGE,
    )


def report(
    asked: SelfReport | None,
    session: RunningSession,
    state_dir: Path | None,
    *,
    as_json: bool = False,
) -> None:
    """asked: None prints a token instead. Raises CommandError."""
    if asked is not None:
        try:
            require_sound(asked)
        except ReportError as error:
            raise CommandError(str(error), Exit.USAGE) from error
    message = ReportMessage(
        VERSION, "report", secrets.token_hex(16), session.id, session.agent, asked
    )
    home = read_settings(CollectorSettings, state_dir=state_dir).state_dir
    reply = _asked(home / SOCKET_FILE, message)
    if not reply.ok:
        raise CommandError(" ".join(filter(None, (reply.error, reply.next))))
    view_id = f"{reply.host_id}:{session.id}"
    if as_json:
        told = {"schema": 1, "session": view_id}
        put_json(told | ({"token": reply.token} if asked is None else {"status": asked.status}))
    elif asked is None:
        put(reply.token or "")
    else:
        say(f"Reported: {asked.status}.")


def _asked(path: Path, message: ReportMessage) -> ReportReply:
    """Raises CommandError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(message) + b"\n")
            answer = b""
            while not answer.endswith(b"\n") and len(answer) <= MOST_REPLY:
                part = connection.recv(4096)
                if not part:
                    break
                answer += part
    except OSError as error:
        why = error.strerror or error
        raise CommandError(
            f"This machine's collector does not answer at {path} ({why}), so nothing was reported. "
            "See how it is: adsum doctor"
        ) from error
    try:
        return msgspec.json.decode(answer, type=ReportReply)
    except msgspec.DecodeError as error:
        raise CommandError(
            f"What answers at {path} is no collector that takes reports. Upgrade Adsum, then "
            "restart the collector."
        ) from error
