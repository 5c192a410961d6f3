"""`adsum join` has this machine report to a hub, checked to its first signal, or undoes all."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from adsum.config import read_settings
from adsum.control import require_shown, switch_on
from adsum.hooks import Setup, setups_for
from adsum.hooks_commands import note_closed
from adsum.join.leave import (
    STOP_S,
    Folder,
    Undo,
    heedless,
    interruptible,
    let_go,
    stop_collector,
    uninterrupted,
)
from adsum.machine import (
    Hub,
    LostError,
    Membership,
    Way,
    choose_way,
    keep,
    membership,
    require_usable,
)
from adsum.outcome import CommandError, Exit, agrees, say
from adsum.service.job import NoServiceManagerError
from adsum.service.service import install_service
from adsum.supervise import SUPERVISED
from adsum.verify import send_probe
from adsum_collector.agents.installer import HOOK_PATH, SettingsError
from adsum_collector.agents.settings_file import drop_receipt, load_receipt, require_writable
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import (
    LOCK_FILE,
    holder_of,
    load_identity,
    make_private,
    renew_identity,
    token_of,
)
from adsum_shared import AdsumError, __version__
from adsum_shared.envelope import VERSION
from adsum_shared.state import Control

WITHOUT = "Or join without hooks: --no-hooks."
CLOCK_MOST_MS = 5_000
LISTENS_WITHIN_S = 20.0
APPLIED_WITHIN_S = 15.0
LOOK_S = 0.05
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
    control: Control = "off"


def join(url: str, state_dir: Path | None, wish: Wish) -> None:
    """Raises CommandError, with everything undone."""
    began = time.monotonic()
    settings = read_settings(CollectorSettings, state_dir=state_dir)
    hub = Hub(url, wish.ca)
    if wish.control != "off":
        require_shown(settings)
    if wish.ca is not None:
        require_usable(wish.ca)
    before = membership(settings.state_dir)
    if before is not None and not (wish.again or wish.fresh_identity):
        say(f"This machine has joined {before.hub} already, as {before.label}.")
        say("To do it anew, by a new token: --again. To leave: adsum leave")
        return
    token = given_token(wish.token)
    _require_free(settings, again=before is not None)
    setups = setups_for("user", settings.state_dir)
    for setup in setups:
        check_settings(setup, wanted=wish.hooks)
    if hub.in_clear:
        say(f"warning    {hub.in_clear}")
    say(check_hub(hub, token))
    agreed = [setup for setup in setups if wish.hooks and agree(setup, yes=wish.yes)]
    undo = Undo()
    with interruptible():
        try:
            work = _Joining(hub, settings, setups[0], wish, undo)
            work.run(token, before, agreed)
        except BaseException as error:
            _undone(error, undo)
            raise
    say(f"Joined in {time.monotonic() - began:.1f} s. It is on the page: {hub.url}")


class _Joining:
    def __init__(
        self, hub: Hub, settings: CollectorSettings, setup: Setup, wish: Wish, undo: Undo
    ) -> None:
        self._hub, self._settings, self._setup = hub, settings, setup
        self._home = settings.state_dir
        self._wish, self._undo = wish, undo
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, token: str, before: Membership | None, agreed: Sequence[Setup]) -> None:
        """agreed: where hooks are to be installed."""
        if before is not None and stop_collector(self._home):
            self._undo.add("start the collector: adsum collector", self._launch)
        folder = Folder(self._home)
        self._undo.add(f"remove what joining made in {self._home}", folder.restore)
        self._enter(token, before)
        say(f"collector  {self._start(folder)}")
        setup = replace(self._setup, port=until_listening(self._setup, self._has_ended))
        left_out = "left out; to add them: adsum hooks install"
        for each in agreed:
            say(f"hooks      {put_hooks(replace(each, port=setup.port), self._undo)}")
        if not agreed:
            say(f"hooks      {left_out}")
        say(f"signal     {first_signal(self._hub, setup)}")

    def _enter(self, token: str, before: Membership | None) -> None:
        """The hub's answer is kept, and undone."""
        make_private(self._home)
        label = self._settings.host_label
        if self._wish.fresh_identity:
            identity, before = renew_identity(self._home, label), None
        else:
            identity = load_identity(self._home, label)
        host = identity.host_id
        asked = {"token": token, "host_id": host, "label": identity.label, "via": self._wish.via}
        if before is not None and before.host_id == host:
            asked["former"] = before.secret
        with uninterrupted():
            try:
                answer = self._hub.ask("/api/v1/join", asked)
            except LostError:
                self._undo.beyond(
                    "the hub's answer was lost, so this machine may stand half joined there, and "
                    f"the token be used up. On the hub's machine: adsum hosts reset {host}; "
                    "then join by a new token: adsum hub tokens create --join"
                )
                raise
            self._hub.secret = answer["secret"]
            self._undo.add(
                f"on the hub's machine: adsum hosts forget {host}",
                lambda: let_go(self._hub, {"undo": True}),
            )
        if answer["warning"]:
            say(f"warning    {answer['warning']}")
        say(f"joined     as {answer['label']}, {host}")
        ca = str(self._wish.ca.absolute()) if self._wish.ca else None
        redis_url, words = choose_way(self._hub, answer, self._wish.via, ca)
        kept = (host, answer["label"], redis_url or "", answer["secret"], ca)
        via: Literal["redis", "ingest"] = "redis" if redis_url else "ingest"
        keep(self._home, Membership(self._hub.url, *kept, via=via))
        if self._wish.control != "off":
            switch_on(
                self._home, self._wish.control, answer.get("command_keys"), yes=self._wish.yes
            )
        say(f"signals    {words}")

    def _start(self, folder: Folder) -> str:
        def stop() -> None:
            for process in self._started:
                # Also one so young that it holds no lock yet, so that nobody else could find it.
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)
            stop_collector(self._home)
            folder.in_use = False

        folder.in_use = True
        self._undo.add("stop the collector: adsum service remove", stop)
        return self._launch()

    def _has_ended(self) -> bool:
        """Of a service nobody here can say: it is started anew."""
        return any(process.poll() is not None for process in self._started)

    def _launch(self) -> str:
        if self._wish.service:
            try:
                done = install_service(self._home)
            except NoServiceManagerError as error:
                raise CommandError(
                    f"{error.why}\nJoin with --no-service: the collector then runs as a process, "
                    "until this machine stops."
                ) from error
            return " ".join(["runs as a service, also after a restart.", *done.notes])
        with uninterrupted():
            process = _start_process(self._home)
            self._started.append(process)
        return (
            f"runs as process {process.pid} until this machine stops. Have it started then, by "
            "what starts things here: adsum collector"
        )


def _start_process(state_dir: Path) -> subprocess.Popen[bytes]:
    """It goes on when the terminal is closed, and ends with the machine."""
    logs = state_dir / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    mine = (TOKEN_VARIABLE, SUPERVISED)
    env = {name: value for name, value in os.environ.items() if name not in mine}
    with (logs / "collector.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "adsum", "collector"],
            env={**env, "ADSUM_STATE_DIR": str(state_dir)},
            cwd=state_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def given_token(flag: str | None) -> str:
    """Raises CommandError."""
    given = sys.stdin.readline() if flag == "-" else flag
    if token := (given or os.environ.get(TOKEN_VARIABLE) or "").strip():
        return token
    raise CommandError(HOW_TO_JOIN, Exit.USAGE)


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
        left = "; ".join(undo.run())
    after = "All but this is as it was before: " if left else "Everything is as it was before."
    after += left
    if not isinstance(error, (AdsumError, OSError)):
        say(after)
        return
    code = error.code if isinstance(error, CommandError) else Exit.ERROR
    raise CommandError(f"{error}\n{after}", code) from error


def check_settings(setup: Setup, *, wanted: bool) -> None:
    """Before a token is used up. Raises CommandError: hooks could not be installed."""
    if not wanted:
        return
    try:
        setup.inspect()
        require_writable(setup.path)
        _require_folder(setup.path)
        _ = setup.version
    except AdsumError as error:
        raise CommandError(f"{error}\n{WITHOUT} Nothing has changed.") from error


def _require_folder(path: Path) -> None:
    """For the file's next version and, beside the link if it is one, its backup. Raises SettingsError."""
    real = Path(os.path.realpath(path))
    # A folder that is wanting is made, but not behind a link.
    if (path.is_symlink() or path.parent.is_symlink()) and not real.parent.is_dir():
        raise SettingsError(f"{path} leads to {real}, and {real.parent} is no folder. Make it one.")
    for folder in (path.parent, real.parent):
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if not os.access(there, os.W_OK | os.X_OK):
            raise SettingsError(
                f"{path} and its backup need a folder that may be written to. Allow it with "
                f"`chmod u+w {there}`."
            )


def check_hub(hub: Hub, token: str) -> str:
    """Reachable, of a version that fits, and the token good. Raises CommandError."""
    before = time.time()
    found = hub.ask("/api/v1/join/check", {"token": token})
    middle_ms = (before + time.time()) * 500
    if found["wire"] != VERSION:
        older = "this machine" if found["wire"] > VERSION else "the hub"
        raise CommandError(
            f"The hub is Adsum {found['version']}, this is {__version__}, and they do not understand "
            f"each other (batch formats {found['wire']} and {VERSION}). Upgrade {older}."
        )
    said = f"hub        {hub.url}, Adsum {found['version']}"
    off = middle_ms - found["now"]
    if abs(off) > CLOCK_MOST_MS:
        way = "ahead of" if off > 0 else "behind"
        said += (
            f"\nclock      this machine's is {abs(off) / 1000:.0f} s {way} the hub's. Ages are "
            "corrected for it; yet let both keep network time: timedatectl set-ntp true"
        )
    return said


def agree(setup: Setup, *, yes: bool) -> bool:
    """Whether to install hooks: asked on a terminal, else only where --yes says so."""
    if yes:
        return True
    if not sys.stdin.isatty():
        return False
    say(
        f"{setup.agent.title} reports to Adsum through hooks in {setup.path}.\n"
        f"Your own hooks stay; `adsum leave` restores the file. {setup.installer.asks}".rstrip()
    )
    return agrees("Install them? [Y/n] ")


def until_listening(setup: Setup, has_ended: Callable[[], bool]) -> int:
    """The collector's port, once it takes hooks. Raises CommandError."""
    until, wrong = time.monotonic() + LISTENS_WITHIN_S, ""
    # Made here if the collector has not yet: its port opens before it has read one, and a probe
    # without one would be counted as refused, and be told of this machine from its first minute.
    token = token_of(setup.state_dir)
    probe = setup.installer.probe
    while True:
        if has_ended():
            words = _last_words(setup.state_dir)
            raise CommandError(f"The collector has ended. Its log ends: {words}")
        if port := _said_port(setup.state_dir):
            try:
                send_probe(f"http://127.0.0.1:{port}{HOOK_PATH}", token, probe)
            except CommandError as error:
                wrong = f" {error}"
            else:
                return port
        if time.monotonic() > until:
            words = f"{_last_words(setup.state_dir)}{wrong}"
            raise CommandError(f"The collector takes no hooks. Its log ends: {words}")
        time.sleep(LOOK_S)


def _said_port(state_dir: Path) -> int:
    """As its holder wrote it into the lock, and listens there; 0: nothing yet, or of one that is gone.

    The lock itself is not asked whether it is held: that takes it for a moment, and a collector
    that starts in this very moment would find it taken, and end. Whoever else has the port would
    count a refused hook for every probe.
    """
    import psutil

    try:
        pid, port = (int(each) for each in (state_dir / LOCK_FILE).read_text().split())
    except (OSError, ValueError):
        return 0
    try:
        sockets = psutil.Process(pid).net_connections("tcp")
    except (psutil.NoSuchProcess, ValueError):  # no process id anywhere
        return 0
    except psutil.Error:  # the system keeps it to itself
        return port
    listens = (one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN)
    return port if port in listens else 0


def _last_words(state_dir: Path) -> str:
    log = state_dir / "logs" / "collector.log"
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "its log: adsum service logs"
    return lines[-1][:500] if lines else f"nothing stands in {log}"


def put_hooks(setup: Setup, undo: Undo) -> str:
    """Where they stand now. Raises CommandError."""
    backups = f"{setup.path.name}.adsum-backup-*"
    kept = set(setup.path.parent.glob(backups))

    def take_away() -> None:
        for each in set(setup.path.parent.glob(backups)) - kept:
            each.unlink(missing_ok=True)

    before = setup.path.read_bytes() if setup.path.exists() else None
    with uninterrupted():
        held = load_receipt(setup.path, setup.state_dir)
        try:
            change = setup.install(dry_run=False)
        except (AdsumError, OSError) as error:
            take_away()
            if held is None:  # of what stood there before hooks that are not there now
                drop_receipt(setup.path, setup.state_dir)
            raise CommandError(f"{error}\n{WITHOUT}") from error

        def remove() -> None:
            if change.needed:
                setup.remove(dry_run=False)
            after = setup.path.read_bytes() if setup.path.exists() else None
            if after == before:
                take_away()

        undo.add("take out the hooks: adsum hooks remove", remove)
    note_closed(change)
    return f"in {setup.path}" if change.needed else f"in {setup.path} already"


def first_signal(hub: Hub, setup: Setup) -> str:
    """A probe goes the way of every hook; how long until the hub had it. Raises CommandError."""
    taken = send_probe(setup.url, token_of(setup.state_dir), setup.installer.probe)
    while True:
        seen = hub.ask("/api/v1/machine")
        took_s = time.perf_counter() - taken.sent
        if seen["applied"] >= taken.seq and seen["reachability"] == "live":
            return f"applied by the hub for {seen['label']} after {took_s * 1000:.0f} ms"
        if took_s > APPLIED_WITHIN_S:
            raise CommandError(
                f"The hub has not seen this machine's signal within {APPLIED_WITHIN_S:g} s: it is at "
                f"number {seen['applied']}, the signal is {taken.seq}. "
                f"The collector says: {_last_words(setup.state_dir)}"
            )
        time.sleep(LOOK_S)
