"""What somebody who knows better says of a session: its agent how its work stands, its owner what it is shown as.

`adsum report` is typed by an agent, and tells this machine's collector. `adsum report-wrong-state` bundles what
was known of a session and what was shown; it sends nothing. The bundle is a scenario that
`python -m bench.accuracy` replays, so it can become a test.
"""

from __future__ import annotations

import io
import json
import secrets
import socket
import tarfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from adsum.client import fetch, hub_url, path_of, session_named, typed
from adsum.config import read_settings
from adsum.listing import Freshness, fetch_freshness
from adsum.outcome import CommandError, Exit, put, put_json, require, say
from adsum.text.words import age
from adsum_collector.agents import known_agents
from adsum_collector.intake import VERSION, ReportMessage, ReportReply
from adsum_collector.listening.sockets import SOCKET_FILE
from adsum_collector.settings import CollectorSettings
from adsum_shared import __version__
from adsum_shared.commands import ReportError, SelfReport, require_sound
from adsum_shared.private_files import write_private
from adsum_shared.redact import clean
from adsum_shared.state import GROUP_OF, SessionView

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


def report_work(
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


class ReportedSignals(msgspec.Struct, frozen=True):
    """As the hub answers; all times of the session's host."""

    now: int
    since: int
    held_since: int | None
    signals: list[dict[str, Any]]


def report_wrong_state(
    session: str,
    hub: str | None,
    state_dir: Path | None,
    *,
    minutes: int,
    should_be: str | None,
    output: Path | None,
) -> None:
    """Raises CommandError."""
    states = ", ".join(sorted(GROUP_OF))
    known = should_be is None or should_be in GROUP_OF
    require(known, f"{should_be!r} is no state. --should-be is one of {states}.")
    view, told, fresh = gathered(hub_url(hub, state_dir), session, minutes)
    # The hub's clock in views, the host's in signals.
    ahead = next((host.clock_offset_ms for host in fresh.hosts if host.id == view.host_id), 0)
    name = f"wrong-state-{view.session_id[:8]}-{time.strftime('%Y%m%d-%H%M%S')}"
    label = label_of(view, told, ahead, should_be)
    versions = {host.id: host.version for host in fresh.hosts}
    texts = scenario(name, view, told, versions.get(view.host_id), [label])
    texts["shown.json"] = json.dumps(shown(view, ahead), indent=1) + "\n"
    file = output or Path(f"adsum-{name}.tar.gz")
    try:
        contents = {each: text.encode() for each, text in texts.items()}
        write_private(file, packed(name, contents), durable=False)
    except OSError as error:
        raise CommandError(
            f"{file} cannot be written: {error.strerror}. Give another by -o."
        ) from error
    _tell(file, view, told, label)


def gathered(
    url: str, session: str, minutes: int
) -> tuple[SessionView, ReportedSignals, Freshness]:
    """The session, what its witnesses said in the last minutes, and its machine. Raises CommandError."""
    chosen = session_named(url, session)
    view = typed(url, fetch(url, path_of(chosen)), SessionView)
    found = fetch(url, f"{path_of(view)}/signals", {"minutes": str(minutes)})
    told = typed(url, found, ReportedSignals)
    if not told.signals:
        raise CommandError(
            f"The hub holds no signal of {clean(view.session_id)}: it keeps the last megabytes in "
            "memory, from its start on. Report it while the session runs, soon after what was wrong."
        )
    return view, told, fetch_freshness(url)


def scenario(
    name: str,
    view: SessionView,
    told: ReportedSignals,
    collector: str | None,
    labels: list[dict[str, Any]],
) -> dict[str, str]:
    """The files of a scenario that `bench.accuracy` replays. collector: its version."""
    meta = {
        "name": name,
        "agent": view.agent,
        "cli_version": view.version or "",
        "t0_wall_ms": told.since,
        "sessions": [view.session_id],
        "labels": " + ".join(sorted({each["source"] for each in labels})),
        "adsum": {"command": __version__, "collector": collector},
        "held_since_ms": told.held_since,
    }
    rows = [
        {"t_ms": max(0, signal["seen"] - told.since), "kind": "signal", "body": signal}
        for signal in told.signals
    ]
    lines = {"events.jsonl": rows, "labels.jsonl": labels}
    texts = {each: "".join(json.dumps(row) + "\n" for row in of) for each, of in lines.items()}
    return {"meta.json": json.dumps(meta, indent=1) + "\n", **texts}


def shown(view: SessionView, ahead: int) -> dict[str, Any]:
    """What was shown, in words of ours alone: a label may go on with a command or a task's name.

    Times by the host's clock.
    """
    state = view.state
    return {
        "group": state.group.value,
        "state": state.state,
        "label": state.label.partition(": ")[0],
        "cause": {"source": state.source, "confidence": state.confidence},
        "since": state.since + ahead,
        "reachability": view.reachability,
        "incomplete": view.incomplete,
        "witnesses": [
            {"name": each.name, "heard_at": each.heard_at + ahead, "problem": each.problem}
            for each in view.witnesses
        ],
        "requests": [
            {"kind": each.kind, "role": each.role, "opened_at": each.opened_at + ahead}
            for each in view.requests
        ],
        "children": [{"kind": each.kind, "status": each.status} for each in view.children],
    }


def label_of(
    view: SessionView, told: ReportedSignals, ahead: int, should_be: str | None
) -> dict[str, Any]:
    """What should have been shown, since what was shown began; not scored where nobody said it."""
    return {
        "session_id": view.session_id,
        "from_ms": max(0, view.state.since + ahead - told.since),
        "to_ms": told.now - told.since,
        "group": None if should_be is None else GROUP_OF[should_be].value,
        "states": None if should_be is None else [should_be],
        "why": f"reported; shown was {view.state.state}",
        "known_to": [],
        "source": "hand",
    }


def packed(name: str, contents: Mapping[str, bytes]) -> bytes:
    """A folder of these files as .tar.gz, for its owner's eyes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for each, content in contents.items():
            entry = tarfile.TarInfo(f"{name}/{each}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def _tell(file: Path, view: SessionView, told: ReportedSignals, label: dict[str, Any]) -> None:
    kinds = Counter(signal["kind"] for signal in told.signals)
    most = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(5))
    say(f"{file} holds {len(told.signals)} signals of {clean(view.session_id)} ({most}),")
    say(f"what was shown ({view.state.state}), witnesses, and the versions of Adsum and the agent.")
    say("No prompt, answer, title, tool input or path: `tar xzOf` shows all of it.")
    if told.held_since is None or told.held_since > told.since:
        short = age(told.now - (told.held_since or told.now))
        say(f"The hub has kept signals for {short} only: what came before is not in it.")
    if label["group"] is None:
        say("What it should have been nobody said: `--should-be STATE`, or labels.jsonl by hand.")
    say("Nothing was sent. Unpacked, `python -m bench.accuracy FOLDER` replays it.")
