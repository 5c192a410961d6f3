"""WebSocket clients that cost next to nothing: they drain, count, and answer pings."""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from multiprocessing.connection import Connection

CLIENT_PROCESSES = 2
HELLO = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
)
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
TEXT, DEFLATED, PING, PONG = 0x81, 0xC1, 0x89, 0x8A


def masked(first: int, body: bytes) -> bytes:
    """A client's frame; a mask of zeros leaves the body as it is."""
    size = bytes([0x80 | len(body)]) if len(body) < 126 else b"\xfe" + struct.pack("!H", len(body))
    return bytes([first]) + size + bytes(4) + body


class Drain:
    """One client: counts messages, answers pings, looks at no body but the first client's."""

    def __init__(self, port: int, resume: bytes, *, plain: bool, keeps: bool) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(HELLO.format(port=port, more="" if plain else DEFLATE).encode())
        self.left = b""
        while b"\r\n\r\n" not in self.left:
            self.left += self.socket.recv(4096)
        self.left = self.left.partition(b"\r\n\r\n")[2]
        self.socket.sendall(masked(TEXT, resume))
        self.messages = self.bytes = self.rest = 0
        self.kept: list[tuple[float, int, bytes]] | None = [] if keeps else None
        self.body = bytearray()

    def take(self, data: memoryview) -> None:
        at, end = 0, len(data)
        self.bytes += end
        if self.left:
            data = memoryview(self.left + bytes(data))
            self.left, end = b"", len(data)
        while at < end:
            if self.rest:
                now = min(self.rest, end - at)
                if self.kept is not None:
                    self.body += data[at : at + now]
                self.rest -= now
                at += now
                if not self.rest:
                    self._end()
                continue
            size, head = data[at + 1] if end - at > 1 else 0, 2
            head = {126: 4, 127: 10}.get(size, 2)
            if end - at < head:
                self.left = bytes(data[at:])
                return
            self.first = data[at]
            self.rest = int.from_bytes(data[at + 2 : at + head], "big") if head > 2 else size
            at += head

    def _end(self) -> None:
        if self.first == PING:
            self.socket.sendall(masked(PONG, b""))
        elif self.first in (TEXT, DEFLATED):
            self.messages += 1
            if self.kept is not None:
                self.kept.append((time.monotonic(), self.first, bytes(self.body)))
        self.body.clear()


def drain(port: int, clients: int, resume: bytes, plain: int, pipe: Connection) -> None:
    """A process of clients. Says when all are in; at a word counts anew, at the next tells."""
    drains = {}
    poll = select.epoll()
    for number in range(clients):
        each = Drain(port, resume, plain=bool(plain), keeps=number == 0)
        drains[each.socket.fileno()] = each
        poll.register(each.socket, select.EPOLLIN)
    poll.register(pipe.fileno(), select.EPOLLIN)
    room = bytearray(1 << 20)
    view = memoryview(room)
    pipe.send("in")
    while True:
        for number, _ in poll.poll():
            if number != pipe.fileno():
                drains[number].take(view[: drains[number].socket.recv_into(room)])
            elif pipe.recv() == "begin":
                for each in drains.values():
                    each.messages = each.bytes = 0
                    if each.kept is not None:
                        each.kept = []
            else:
                counts = [(each.messages, each.bytes) for each in drains.values()]
                pipe.send((counts, next(e.kept for e in drains.values() if e.kept is not None)))
                return


@contextlib.contextmanager
def drained(port: int, clients: int, resume: bytes, *, plain: bool) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(CLIENT_PROCESSES):
        ours, theirs = context.Pipe()
        words = (port, clients // CLIENT_PROCESSES, resume, int(plain), theirs)
        processes.append(context.Process(target=drain, args=words, daemon=True))
        processes[-1].start()
        pipes.append(ours)
    try:
        for pipe in pipes:
            pipe.recv()
        yield pipes
    finally:
        for process in processes:
            process.kill()
            process.join()


def text(first: int, body: bytes) -> bytes:
    return zlib.decompressobj(-15).decompress(body) if first == DEFLATED else body


def frame(first: int, body: bytes) -> bytes:
    if len(body) < 126:
        return bytes((first, len(body))) + body
    wide = len(body) >= 1 << 16
    return struct.pack("!BBQ" if wide else "!BBH", first, 127 if wide else 126, len(body)) + body
