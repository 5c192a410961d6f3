"""`adsum up` runs broker, hub and collector in one command, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from adsum import outcome
from adsum.broker import BrokerPart, find_engine, prepare
from adsum.config import UpSettings, read_settings, require_url
from adsum.hooks import Setup
from adsum.hooks_commands import note_closed
from adsum.outcome import CommandError, Exit, agrees, put
from adsum.supervise import Part, ServerPart, supervise
from adsum_collector.agents.installer import (
    HOOK_PATH,
    SHIM_NAME,
    Plugin,
    ProgramNotFoundError,
    SettingsError,
)
from adsum_collector.agents.settings_file import read_settings as read_agents_settings
from adsum_collector.settings import CollectorSettings
from adsum_collector.state_dir import renew_token
from adsum_hub.settings import HubSettings
from adsum_shared.private_files import open_private, write_private

LOOPBACK = "127.0.0.1"
#: Within this time running sessions have read settings that changed (measured: 0.5 to 2 s).
NOTICED_S = 1.5
STATUS_LINE = ", so does your status line, through which it reports too."


def run_up(state_dir: Path | None, redis_url: str | None, *offers: Offer) -> None:
    """offers: at least one, the default agent's first."""
    settings = read_settings(UpSettings, state_dir=state_dir, redis_url=redis_url)
    hub = read_settings(HubSettings, state_dir=state_dir, redis_url=redis_url)
    port = read_settings(CollectorSettings, state_dir=state_dir).collector_port
    if 0 in (hub.hub_port, port):
        raise CommandError("`adsum up` needs fixed ports: hooks and pages must find them.")
    host = LOOPBACK if hub.hub_host in ("0.0.0.0", "::") else hub.hub_host  # noqa: S104 - asked, not bound
    url = f"http://[{host}]:{hub.hub_port}" if ":" in host else f"http://{host}:{hub.hub_port}"
    with held(settings.state_dir, url):
        _require_free(hub.hub_host, hub.hub_port, "hub", "ADSUM_HUB_PORT")
        if offers[0].setup.stranger:
            for offer in offers:
                say(offer.leave_port())
        _require_free(LOOPBACK, port, "collector", "ADSUM_COLLECTOR_PORT")
        if settings.redis_url:
            require_url(settings.redis_url)  # before anybody is asked anything
        for offer in offers:
            offer.ask()
        servers = {"hub": (host, hub.hub_port), "collector": (LOOPBACK, port)}
        asyncio.run(_run(settings, servers, url, offers, sign_in=hub.sign_in))
    say("Adsum has stopped. What it knows is kept; `adsum up` goes on from there.")


def say(text: str) -> None:
    # The terminal may be gone: parts are stopped in order all the same.
    with contextlib.suppress(OSError):
        outcome.say(text)


async def _run(
    settings: UpSettings,
    servers: dict[str, tuple[str, int]],
    url: str,
    offers: Sequence[Offer],
    *,
    sign_in: bool,
) -> None:
    """The broker, unless one is named, then the two that need it."""
    logs = settings.state_dir / "logs"
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    stages: list[list[Part]] = []
    if settings.redis_url:
        redis_url, broker = settings.redis_url, await _require_reachable(settings.redis_url)
    else:
        engine, place = find_engine(), prepare(settings.state_dir)
        redis_url, broker = place.url, f"{engine.label}, embedded"
        stages.append([BrokerPart(engine, place, settings.broker_memory_mb, say)])
    # By environment, not by argument: a URL may hold a password, and argument lists are public.
    env = {"ADSUM_REDIS_URL": redis_url, "ADSUM_STATE_DIR": str(settings.state_dir)}
    stages.append([ServerPart(name, address, logs, env) for name, address in servers.items()])

    async def started() -> None:
        hooks = [await asyncio.to_thread(offer.settle) for offer in offers]
        way_in, drawn = "nobody has to (ADSUM_SIGN_IN=off)", ""
        if sign_in:
            way_in, drawn = await asyncio.to_thread(_way_in, url, settings.state_dir)
        about = [("Dashboard", url), ("Sign in", way_in), *(("Hooks", each) for each in hooks)]
        about += [("Broker", broker), ("Logs", str(logs))]
        lines = "".join(f"  {name:<10} {what}\n" for name, what in about)
        outcome.say(f"Adsum is up.\n{lines}  Ctrl-C stops it.", sys.stdout)
        if drawn:
            put(drawn)

    async def ending() -> None:
        taken_out = [await asyncio.to_thread(offer.park) for offer in offers]
        for said in filter(None, taken_out):
            say(said)
        if any(taken_out):
            await asyncio.sleep(NOTICED_S)

    await supervise(stages, say, started, ending)


def _way_in(url: str, state_dir: Path) -> tuple[str, str]:
    """How to get in, for people; and a link that opens on a phone as a QR, or nothing."""
    from adsum.access import is_local, make_link, qr, user
    from adsum.client import hub_url

    try:
        link = make_link(hub_url(url, state_dir), "admin", user())["url"]
    except CommandError as error:
        return f"adsum login prints a link ({error})", ""
    often = "once, within ten minutes; for another: adsum login"
    if is_local(link):
        often += "\n             from a phone: set ADSUM_PUBLIC_URL, see docs/sign-in.md"
    return f"{link}\n             {often}", "" if is_local(link) else qr(link)


async def _require_reachable(url: str) -> str:
    """The address to show. Raises CommandError when the Redis named by the user cannot be used."""
    from redis.exceptions import AuthenticationError, NoPermissionError

    from adsum_shared.connect import UNAVAILABLE, open_redis, require_recent
    from adsum_shared.redis_errors import BrokerTooOldError, explained
    from adsum_shared.redis_url import address_of

    require_url(url)
    address = address_of(url)
    client = open_redis(url)
    try:
        require_recent(await client.info("server"))
    except NoPermissionError:
        pass  # an ACL user may be denied INFO; hub and collector will say what else they lack
    except AuthenticationError as error:
        raise CommandError(
            f"Redis at {address} refuses the login ({error}). Correct user and password in "
            "ADSUM_REDIS_URL: redis://user:password@host:6379/0.",
            Exit.AUTH,
        ) from error
    except BrokerTooOldError as error:
        raise CommandError(f"{address}: {error}") from error
    except UNAVAILABLE as error:
        away = (
            f"Redis at {address} cannot be reached ({error}). Start it, correct the URL, or leave "
            "it out: then Adsum runs a broker of its own."
        )
        why = explained(error)
        raise CommandError(f"Redis at {address} {why}" if why else away) from error
    finally:
        await client.aclose()
    return address


@contextlib.contextmanager
def held(state_dir: Path, url: str) -> Iterator[None]:
    """One `adsum up` per state directory; the kernel lets go of the lock however we end."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_private(state_dir / "up.lock", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise CommandError(
            f"The state directory {state_dir} cannot be used: {error.strerror}. "
            "Choose another with ADSUM_STATE_DIR."
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(_running_already(descriptor)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "url": url}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _running_already(descriptor: int) -> str:
    try:
        other = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return "Adsum is just starting in another process. Give it a moment."
    pid, url = other["pid"], other["url"]
    return f"Adsum is up already: {url} (process {pid}). Use it, or stop it with `kill {pid}`."


def _require_free(host: str, port: int, name: str, variable: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"The {name} cannot listen on {host}:{port}: {error.strerror}{_owner(port)}. "
                f"Stop what listens there, or choose another port: {variable}={port + 10} adsum up"
            ) from error


def _owner(port: int) -> str:
    """Who listens there, as far as we may see it."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            listens = one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
            if listens and one.pid:
                return f" (process {one.pid}, {psutil.Process(one.pid).name()})"
    return ""


@dataclass(slots=True)
class Offer:
    """enabled: not --no-hooks. agreed: --yes, or the answer given."""

    setup: Setup
    enabled: bool = True
    agreed: bool = False

    def ask(self) -> None:
        """Before anything starts, so that Ctrl-C here stops nothing half-way."""
        if not self.enabled or self.agreed or self._installed() or self._by_plugin():
            return
        self.agreed = self.setup.parked.exists()
        if self.agreed or not sys.stdin.isatty():
            return
        say(
            f"{self.setup.agent.title} reports to Adsum through hooks in {self.setup.path}.\n"
            f"Your own hooks stay{STATUS_LINE if self.setup.installer.shows else '.'}\n"
            f"A backup is kept, `adsum hooks remove` restores the file. {self.setup.installer.asks}".rstrip()
        )
        self.agreed = agrees("Install them now? [Y/n] ")

    def settle(self) -> str:
        """Installs when agreed, once the collector listens; the line to print about hooks."""
        if not self.enabled:
            return f"left alone; `{command(self.setup)}` adds them"
        if self._installed():
            return f"installed in {self.setup.path}"
        if not self.agreed and (plugin := self._by_plugin()):
            return f"the plugin {plugin.id} reports"
        if not self.agreed:
            return f"not installed, or not up to date: run `{command(self.setup)}`"
        try:
            change = self.setup.install(dry_run=False)
            self.setup.parked.unlink(missing_ok=True)
        except (SettingsError, ProgramNotFoundError, OSError) as error:
            return f"not installed. {error}"
        note_closed(change)
        return f"installed in {self.setup.path}\n             {self.setup.installer.heard}"

    def park(self) -> str:
        """Takes the hooks out until the next `adsum up`; the line to print, or nothing to say."""
        try:
            if not self.enabled or not self.setup.reports_here():
                return ""
            # First: hooks that are out without this note would stay out.
            self.setup.parked.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self.setup.parked, self.setup.mode_as_it_is().encode())
            self.setup.remove(dry_run=False)
        except (SettingsError, OSError) as error:
            with contextlib.suppress(OSError):
                self.setup.parked.unlink(missing_ok=True)
            if not self._may_hold_ours():
                return ""
            return (
                f"The hooks could not be taken out of {self.setup.path}: {error}\n"
                f"{self.setup.agent.title} will say that nobody answers; `adsum hooks remove` tries again."
            )
        return f"Hooks taken out of {self.setup.path}; the next `adsum up` puts them back."

    def leave_port(self) -> str:
        """A stranger listens on the collector's port: what hooks show it opens nothing any more."""
        renew_token(self.setup.state_dir)
        who = f"The user {self.setup.stranger} listens on port {self.setup.port}."
        return f"{who} The hooks' token is renewed. {self.park()}"

    def _may_hold_ours(self) -> bool:
        """Of settings that cannot be understood: unless it can be seen that no hook of ours is there."""
        try:
            raw = read_agents_settings(self.setup.path) or b""
        except SettingsError:
            return True
        return any(ours.encode() in raw for ours in (HOOK_PATH, SHIM_NAME))

    def _by_plugin(self) -> Plugin | None:
        """The plugin that reports well enough without hooks in the settings."""
        try:
            plugin = self.setup.installer.plugin(self.setup.files)
            return plugin if plugin and not plugin.fault(self.setup.version) else None
        except (SettingsError, ProgramNotFoundError):
            return None

    def _installed(self) -> bool:
        try:
            return self.setup.is_complete()
        except (SettingsError, ProgramNotFoundError):
            return False


def command(setup: Setup) -> str:
    """How hooks are installed by hand, as it can be typed here."""
    found = shutil.which("adsum")
    program = "adsum" if found else str(Path(sys.executable).with_name("adsum"))
    return setup.command.replace("adsum", program, 1)
