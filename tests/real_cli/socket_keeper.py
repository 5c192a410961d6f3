"""What a service manager does for a collector: keeps its socket, and starts it again when it dies."""

from __future__ import annotations

import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

#: The manager's protocol: the socket is descriptor 3, and the environment names whom it is for.
_HAND_OVER = 'exec 3<&0 </dev/null; export LISTEN_PID=$$; exec "$@"'


@dataclass
class SocketKeeper:
    """Keeps one listening socket through every end of the program behind it."""

    command: list[str]
    env: dict[str, str]
    log: Path
    starts: int = 0
    _socket: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _closing: threading.Event = field(default_factory=threading.Event)
    _process: subprocess.Popen[bytes] = field(init=False)
    _thread: threading.Thread = field(init=False)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def __enter__(self) -> SocketKeeper:
        self._start()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing.set()
        self._process.terminate()
        self._thread.join(15)
        self._socket.close()

    def kill(self) -> None:
        """Kill -9 what runs behind the socket."""
        self._process.kill()

    def _keep(self) -> None:
        self._process.wait()
        while not self._closing.is_set():
            self._start()
            self._process.wait()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _HAND_OVER, "sh", *self.command],
                env={**self.env, "LISTEN_FDS": "1"},
                stdin=self._socket.fileno(),
                stdout=log,
                stderr=log,
            )
        self.starts += 1
