"""`adsum join` has this machine report to a hub, checked to its first signal, or undoes all."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from adsum.config import read_settings
from adsum.hooks import Setup, setup_for
from adsum.join import collector as join_collector
from adsum.join.leave import let_go
from adsum.join.steps import (
    agree,
    check_hub,
    check_settings,
    first_signal,
    put_hooks,
    until_listening,
)
from adsum.join.undo import Folder, Undo, heedless, interruptible, uninterrupted
from adsum.join_hub import Hub, LostError, RefusedError, require_usable
from adsum.joined import Joined, joined, keep
from adsum.outcome import CommandError, Exit
from adsum.text.saying import say
from adsum_collector.errors import StartError
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import holder_of, load_identity, make_private, renew_identity
from adsum_shared import streams
from adsum_shared.connect import UNAVAILABLE, address_of, open_redis
from adsum_shared.redis_errors import is_certificates, is_untrusted, told_of
from adsum_shared.redis_url import with_ca

#: auto: what the hub offers, and through the hub where Redis cannot be used from here.
Way = Literal["auto", "redis", "ingest"]
REACHED_WITHIN_S = 4.0
UNTRUSTED = (
    "is refused for its certificate: neither the system nor a file given by --ca knows the authority "
    "that signed it. To go straight there, give --ca a file that holds that authority's certificate, "
    "beside the hub's if that has one of your own as well"
)


def choose_way(
    hub: Hub, answer: dict[str, Any], via: Way, ca: str | None = None
) -> tuple[str | None, str]:
    """Redis's URL, None: its signals go through the hub; and what to say of that.

    ca: see `reach_redis`. Raises CommandError.
    """
    if answer["way"] == "ingest":
        return None, f"through the hub. {answer['why']}"
    if via == "ingest":
        older = "The hub is older than this, and takes no signals itself. Upgrade it"
        raise CommandError(f"{older}, or join without --via ingest.")
    address = address_of(answer["redis_url"])
    try:
        url = reach_redis(answer["redis_url"], answer["host_id"], ca)
    except UNAVAILABLE as error:
        why = f"Redis at {address} {_why(error)}"
        refused = CommandError(
            f"The hub names a Redis that cannot be used from here. {why}. If machines reach it "
            "elsewhere, set ADSUM_MACHINE_REDIS_URL at the hub; or go through the hub: --via ingest.",
            Exit.UNREACHABLE,
        )
        if via == "redis":
            raise refused from error
        try:
            hub.ask("/api/v1/machine/ingest", {})
        except RefusedError as older_hub:
            raise refused from older_hub
        return None, f"through the hub. {why}."
    return url, f"to Redis at {address}, which is reached from here"


def reach_redis(url: str, host_id: str, ca: str | None) -> str:
    """The URL to use from now on, with the machine's own login. Raises what is in UNAVAILABLE.

    ca: a file with who signed for the hub. Who signed for Redis may be the same one, which then
    counts alone, or one that the system trusts.
    """
    pinned = url if ca is None else with_ca(url, ca)
    try:
        _look(pinned, host_id)
    except UNAVAILABLE as error:
        if pinned == url or not is_untrusted(error):
            raise
        _look(url, host_id)
        return url
    return pinned


def _look(url: str, host_id: str) -> None:
    async def look() -> None:
        client = open_redis(url)
        try:
            await client.get(streams.want(host_id))
        finally:
            await client.aclose()

    asyncio.run(asyncio.wait_for(look(), REACHED_WITHIN_S))


def _why(error: BaseException) -> str:
    """What follows `Redis at …`."""
    if is_untrusted(error):
        return UNTRUSTED
    if is_certificates(error):
        return f"is refused for its certificate: it {told_of(error)}".rstrip(".")
    return f"cannot be used from here ({str(error) or type(error).__name__})"


TOKEN_VARIABLE = "ADSUM_JOIN_TOKEN"  # noqa: S105 - a name
HOW_TO_JOIN = (
    "A machine joins by a token: --token, --token - for standard input, or ADSUM_JOIN_TOKEN. "
    "`adsum hub tokens create --join` on the hub's machine makes one."
)


@dataclass(frozen=True, slots=True)
class Wish:
    """yes: install hooks without asking. again: although it has joined."""

    token: str | None
    ca: Path | None = None
    yes: bool = False
    hooks: bool = True
    service: bool = True
    again: bool = False
    fresh_identity: bool = False
    via: Way = "auto"


def wished_way(via: str) -> Way:
    """Raises CommandError."""
    match via:
        case "auto" | "redis" | "ingest":
            return via
        case _:
            raise CommandError(f"--via takes auto, redis or ingest, not {via[:40]!r}.", Exit.USAGE)


def join(url: str, state_dir: Path | None, wish: Wish) -> None:
    """Raises CommandError, with everything undone."""
    began = time.monotonic()
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    hub = Hub(url, wish.ca)
    if wish.ca is not None:
        require_usable(wish.ca)
    before = joined(settings.state_dir)
    if before is not None and not (wish.again or wish.fresh_identity):
        say(f"This machine has joined {before.hub} already, as {before.label}.")
        say("To do it anew, by a new token: --again. To leave: adsum leave")
        return
    token = given_token(wish.token)
    _require_free(settings, again=before is not None)
    setup = setup_for("user", settings.state_dir)
    check_settings(setup, wanted=wish.hooks)
    if hub.in_clear:
        say(f"warning    {hub.in_clear}")
    say(check_hub(hub, token))
    hooks = wish.hooks and agree(setup, yes=wish.yes)
    undo = Undo()
    with interruptible():
        try:
            work = _Joining(hub, settings, setup, wish, undo)
            work.run(token, before, hooks=hooks)
        except BaseException as error:
            _undone(error, undo)
            raise
    say(f"Joined in {time.monotonic() - began:.1f} s. It is on the page: {hub.url}")


class _Joining:
    def __init__(
        self, hub: Hub, settings: CollectorSettings, setup: Setup, wish: Wish, undo: Undo
    ) -> None:
        self._hub = hub
        self._home = settings.state_dir
        self._settings = settings
        self._setup = setup
        self._wish = wish
        self._undo = undo
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, token: str, before: Joined | None, *, hooks: bool) -> None:
        if before is not None and join_collector.stop(self._home):
            self._undo.add("start the collector: adsum collector", self._launch)
        folder = Folder(self._home)
        self._undo.add(f"remove what joining made in {self._home}", folder.restore)
        self._enter(token, before)
        say(self._start(folder))
        port = until_listening(self._setup, self._has_ended)
        if hooks:
            say(f"hooks      {put_hooks(self._setup, port, self._undo)}")
        else:
            say("hooks      left out; to add them: adsum hooks install")
        say(f"signal     {first_signal(self._hub, self._setup, port)}")

    def _enter(self, token: str, before: Joined | None) -> None:
        """The hub's answer is kept, and undone."""
        make_private(self._home)
        label = self._settings.host_label
        if self._wish.fresh_identity:
            identity, before = renew_identity(self._home, label), None
        else:
            identity = load_identity(self._home, label)
        asked = {"token": token, "host_id": identity.host_id, "label": identity.label}
        asked["via"] = self._wish.via
        if before is not None and before.host_id == identity.host_id:
            asked["former"] = before.secret
        with uninterrupted():
            answer = self._ask(asked)
            self._hub.secret = answer["secret"]
            self._undo.add(
                f"on the hub's machine: adsum hosts forget {identity.host_id}",
                lambda: let_go(self._hub, {"undo": True}),
            )
        if answer["warning"]:
            say(f"warning    {answer['warning']}")
        say(f"joined     as {answer['label']}, {identity.host_id}")
        ca = str(self._wish.ca.absolute()) if self._wish.ca else None
        redis_url, words = choose_way(self._hub, answer, self._wish.via, ca)
        kept = (identity.host_id, answer["label"], redis_url or "", answer["secret"], ca)
        via: Literal["redis", "ingest"] = "redis" if redis_url else "ingest"
        keep(self._home, Joined(self._hub.url, *kept, via=via))
        say(f"signals    {words}")

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._hub.ask("/api/v1/join", asked)
        except LostError:
            self._undo.beyond(
                "the hub's answer was lost, so this machine may stand half joined there, and the "
                f"token be used up. On the hub's machine: adsum hosts reset {asked['host_id']}; "
                "then join by a new token: adsum hub tokens create --join"
            )
            raise
        return answer

    def _start(self, folder: Folder) -> str:
        def stop() -> None:
            for process in self._started:
                join_collector.end(process)
            join_collector.stop(self._home)
            folder.in_use = False

        folder.in_use = True
        self._undo.add("stop the collector: adsum service remove", stop)
        return f"collector  {self._launch()}"

    def _has_ended(self) -> bool:
        """Of a service nobody here can say: it is started anew."""
        return any(process.poll() is not None for process in self._started)

    def _launch(self) -> str:
        if self._wish.service:
            return join_collector.as_service(self._home)
        with uninterrupted():
            self._started.append(join_collector.as_process(self._home))
        return (
            f"runs as process {self._started[-1].pid} until this machine stops. Have it started "
            "then, by what starts things here: adsum collector"
        )


def given_token(flag: str | None) -> str:
    """Raises CommandError."""
    if flag == "-":
        flag = sys.stdin.readline()
    token = (flag or os.environ.get(TOKEN_VARIABLE) or "").strip()
    if not token:
        raise CommandError(HOW_TO_JOIN, Exit.USAGE)
    return token


def _require_free(settings: CollectorSettings, *, again: bool) -> None:
    """Raises CommandError: something would come before what joining gives."""
    if settings.redis_url:
        raise CommandError(
            "A Redis URL is set here (ADSUM_REDIS_URL, or redis_url in config.toml), which comes "
            "before what joining gives. Take it away, then join.",
            Exit.USAGE,
        )
    holder = holder_of(settings.state_dir)
    if holder is not None and not again:
        raise CommandError(
            f"A collector runs on {settings.state_dir} already (process {holder.pid}), perhaps by "
            "`adsum up`. Stop it, then join; or give this one its own ADSUM_STATE_DIR."
        )


def _undone(error: BaseException, undo: Undo) -> None:
    """Everything as it was. Raises CommandError for what people can read; the rest is told."""
    with heedless():
        left = undo.run()
    after = "Everything is as it was before."
    if left:
        after = "All but this is as it was before: " + "; ".join(left)
    if not isinstance(error, (CommandError, OSError, StartError)):
        say(after)
        return
    code = error.code if isinstance(error, CommandError) else Exit.ERROR
    raise CommandError(f"{error}\n{after}", code) from error
