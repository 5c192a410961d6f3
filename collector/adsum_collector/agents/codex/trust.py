"""Codex runs a hook only once it is trusted: grants that by its own API, and takes it back.

`config.toml` of its home holds a digest for each trusted hook, by its file, its event and which of that
event's groups and hooks it is: `[hooks.state."/home/me/.codex/hooks.json:stop:0:0"]`. So a hook that
moves up needs its entry to move with it, or Codex would ask its owner to review it again.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from adsum_collector.agents.installer import SettingsError
from adsum_shared import __version__

WITHIN_S: Final = 20.0
#: The shared background server's. It runs most sessions, and has them take up what it is told.
SOCKET: Final = "app-server-control/app-server-control.sock"
#: The name that a server's first client gives becomes that of its sessions.
CLIENT: Final = {"name": "codex-tui", "title": "Adsum", "version": __version__}
#: It would fetch a list of plugins from the network.
PLAIN: Final = ("-c", "features.plugins=false")


class ListedHook(msgspec.Struct, rename="camel"):
    """A hook as Codex has read it, and what it thinks of it."""

    key: str
    current_hash: str
    trust_status: str = ""
    enabled: bool = True

    @property
    def runs(self) -> bool:
        return self.enabled and self.trust_status in ("trusted", "managed")


class _Fault(msgspec.Struct):
    message: str


class _Folder(msgspec.Struct):
    hooks: list[ListedHook]
    warnings: list[str] = []
    errors: list[_Fault] = []


class _Listing(msgspec.Struct):
    data: list[_Folder]


def listed(app: AppServer, file: Path) -> tuple[dict[str, ListedHook], list[str]]:
    """(those of this file by place, what Codex warns of at every start). Raises SettingsError."""
    answer = app.call("hooks/list", {"cwds": [str(file.parent)]})
    try:
        folders = msgspec.convert(answer, _Listing).data
    except msgspec.ValidationError as error:
        raise SettingsError(f"Codex lists its hooks otherwise than expected: {error}.") from error
    hooks = {
        split(hook.key)[1]: hook
        for folder in folders
        for hook in folder.hooks
        if _is_of(hook.key, file)
    }
    warnings = [text for folder in folders for text in folder.warnings]
    return hooks, warnings + [fault.message for folder in folders for fault in folder.errors]


def trust(app: AppServer, hooks: Iterable[ListedHook]) -> None:
    """Raises SettingsError."""
    digests = {hook.key: {"trusted_hash": hook.current_hash} for hook in hooks}
    edit = {"keyPath": "hooks.state", "value": digests, "mergeStrategy": "upsert"}
    app.call("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})


def reload_sessions(directory: Path) -> None:
    """Has the sessions of the background server, if one runs, go by the files as they are now."""
    with suppress(SettingsError), shared_server(directory) as app:
        if app is not None:
            app.call("config/batchWrite", {"edits": [], "reloadUserConfig": True})


def place(event: str, group: int, index: int) -> str:
    """As keys have it. event: as the file has it."""
    return f"{re.sub('(?<!^)(?=[A-Z])', '_', event).lower()}:{group}:{index}"


def split(key: str) -> tuple[str, str]:
    """(file, place)."""
    path, *words = key.rsplit(":", 3)
    return path, ":".join(words)


def _is_of(key: str, file: Path) -> bool:
    return os.path.realpath(split(key)[0]) == os.path.realpath(file)


def states(config: Mapping[str, Any], file: Path) -> dict[str, dict[str, Any]]:
    """By place, what `config.toml` says of the hooks in this file."""
    hooks = config.get("hooks")
    held = hooks.get("state") if isinstance(hooks, dict) else None
    return {
        split(key)[1]: state
        for key, state in (held.items() if isinstance(held, dict) else ())
        if isinstance(state, dict) and _is_of(key, file)
    }


_HEADER = re.compile(r"^\[hooks\.state\.[^\n]*\][^\n]*\n?", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_EMPTY = re.compile(r"^\[hooks(\.state)?\][ \t]*\n\s*(?=^\[|\Z)", re.MULTILINE)


def moved(text: str, file: Path, moves: Mapping[str, str | None]) -> str:
    """The text of `config.toml` after hooks of this file have moved. moves: by place; None: gone.

    Of entries as Codex writes them. What somebody wrote otherwise stays as it is, and does no harm:
    its digest is that of a hook which is not there.
    """
    parts, at = [], 0
    for header in _HEADER.finditer(text):
        key = _key(header[0])
        if not _is_of(key, file) or split(key)[1] not in moves:
            continue
        old = split(key)[1]
        new, following = moves[old], _TABLE.search(text, header.end())
        parts.append(text[at : header.start()])
        if new is None:
            at = following.start() if following else len(text)
        else:
            parts.append(header[0].replace(old, new))
            at = header.end()
    result = "".join([*parts, text[at:]])
    if parts and not _HEADER.search(result):
        result = _EMPTY.sub("", result)
    if at == len(text) and result.strip():
        result = result.rstrip("\n") + "\n"
    return result if _says_the_same(text, result, file, moves) else text


def _key(header: str) -> str:
    try:
        return str(next(iter(tomllib.loads(header)["hooks"]["state"])))
    except (tomllib.TOMLDecodeError, LookupError, TypeError):
        return ""


def _says_the_same(before: str, after: str, file: Path, moves: Mapping[str, str | None]) -> bool:
    """Whether nothing but these entries has changed."""
    try:
        old, new = tomllib.loads(before), tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        return False
    wanted = {moves.get(at, at): state for at, state in states(old, file).items()}
    wanted.pop(None, None)
    return wanted == states(new, file) and _others(old, file) == _others(new, file)


def _others(config: dict[str, Any], file: Path) -> dict[str, Any]:
    hooks = config.get("hooks")
    if not isinstance(hooks, dict) or not isinstance(hooks.get("state"), dict):
        return {**config, "hooks": hooks or {}}
    left = {key: state for key, state in hooks["state"].items() if not _is_of(key, file)}
    return {
        **config,
        "hooks": {**hooks, "state": left}
        if left
        else {k: v for k, v in hooks.items() if k != "state"},
    }


class AppServer:
    """Codex's own API: one JSON object a message, asked and answered in turn."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._asked = wire, 0
        hello = {"clientInfo": CLIENT, "capabilities": {"experimentalApi": True}}
        self.call("initialize", hello)
        wire.send(json.dumps({"method": "initialized"}))

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Raises SettingsError."""
        from websockets.exceptions import WebSocketException  # not where usage alone is read

        self._asked += 1
        self._wire.send(json.dumps({"id": self._asked, "method": method, "params": params}))
        while True:
            try:
                said = json.loads(self._wire.recv(WITHIN_S))
            except (OSError, ValueError, EOFError, WebSocketException) as error:
                why = str(error) or type(error).__name__
                raise SettingsError(f"Codex does not answer {method} ({why}).") from error
            if said.get("id") == self._asked and "method" not in said:
                break
        if "error" in said:
            raise SettingsError(f"Codex refuses {method}: {said['error'].get('message')}")
        return said["result"]


class Wire(Protocol):
    def send(self, message: str, /) -> None: ...
    def recv(self, timeout: float | None = None) -> str | bytes: ...


class _Pipe:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, message: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write(message.encode() + b"\n")
        self._process.stdin.flush()

    def recv(self, timeout: float | None = None) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - as above
        end = threading.Timer(timeout or WITHIN_S, self._process.kill)
        end.start()
        try:
            if line := self._process.stdout.readline():
                return line
        finally:
            end.cancel()
        raise EOFError("it has ended")


@contextmanager
def shared_server(directory: Path) -> Iterator[AppServer | None]:
    """The background server of this home; None if none runs."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import unix_connect

    path = os.path.realpath(directory / SOCKET)
    try:
        wire = unix_connect(path, "ws://localhost/", open_timeout=2.0, max_size=None)
    except (OSError, WebSocketException):
        yield None
        return
    with wire:
        yield AppServer(wire)


@contextmanager
def app_server(program: Path, directory: Path) -> Iterator[AppServer]:
    """The one that runs, so that its sessions hear of it; else one of our own. Raises SettingsError."""
    with shared_server(directory) as running:
        if running is not None:
            yield running
            return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own program, no shell
            [program, "app-server", *PLAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Not where we are: it would read the settings of a project nobody has trusted.
            cwd="/",
            env={**os.environ, "CODEX_HOME": str(directory)},
        )
    except OSError as error:
        raise SettingsError(f"{program} cannot be run: {error.strerror}.") from error
    with process:
        try:
            yield AppServer(_Pipe(process))
        finally:
            process.terminate()
