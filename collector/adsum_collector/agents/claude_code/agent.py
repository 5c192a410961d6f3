"""Claude Code, as the collector knows it: its directories, its program and sessions, our hooks in its settings.

Of `claude agents --json`, measured on 2.1.330 with sessions in tmux:

- `--all` only adds background sessions that are over, so it is not asked for. Those have id and
  state too (documented, not seen). Headless runs are listed as `interactive`.
- status: `idle`, `busy` (also while only a background shell runs), `waiting` with waitingFor
  `permission prompt` (a plan's approval too), `input needed` (a question) or `dialog open` (a model
  picker). A session just started may have none.
- It asks the daemon of background sessions if one runs, and starts none. It looks a name up on the
  network, unless nonessential traffic is off, as it is here.
- It writes nothing, but for one case: its very first start, or the first after an update, brings
  `.claude.json` up to date as any start of the CLI does. So it is not run where it never ran.
- It counts a killed process as alive until its parent has collected it; we do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from adsum_collector.agents.base import (
    Agent,
    Asked,
    HookFile,
    PastCall,
    PastDecision,
    Registered,
    RunWords,
    Transcripts,
)
from adsum_collector.agents.claude_code import acting
from adsum_collector.agents.claude_code.acting import (
    KEYBOARD,
    answer_of,
    asked_in,
    inbox_in,
    message_to_inbox,
    past_in,
)
from adsum_collector.agents.claude_code.bodies import decode_hook
from adsum_collector.agents.claude_code.hooks import signals_from_hook
from adsum_collector.agents.claude_code.lines import (
    history,
    signals_from_lines,
    transcript_file,
    written,
)
from adsum_collector.agents.claude_code.settings_text import (
    ALLOWED_URLS,
    ASSUMED,
    FIRST_WITH_HTTP,
    FIRST_WITH_STATUS,
    FORMS,
    added,
    events_for,
    holdable,
    is_ours,
    is_posted,
    permits,
    statusline_in,
    stripped,
    tokens_in,
    unwrapped,
    users_own,
    wrapped,
)
from adsum_collector.agents.claude_code.status import (
    RegistryError,
    signals_from_registry,
    signals_from_statusline,
)
from adsum_collector.agents.claude_code.usage_lines import USAGE_LINES
from adsum_collector.agents.hook_entries import (
    JsonTextError,
    ShapeError,
    command_words,
    hooks_in,
    parse_settings,
    sockets_in,
)
from adsum_collector.agents.installer import (
    HOLD_WORD,
    AgentsError,
    Change,
    Installation,
    Installer,
    Plugin,
    Report,
    SettingsError,
    SettingsFiles,
    Theirs,
    Transport,
    Version,
)
from adsum_collector.agents.programs import find_program, version_in
from adsum_collector.agents.programs import installed_version as installed
from adsum_collector.agents.settings_file import (
    decode_settings,
    edit_settings,
    mode_of,
    read_settings,
)
from adsum_collector.errors import shown
from adsum_collector.line_reader import open_plain
from adsum_shared.commands import Command
from adsum_shared.redact import clean
from adsum_shared.signals import AnySignal, MetaChanged


def needs_of_job(directory: Path, job: str) -> str:
    """Return what a background job waits for, "" if nothing is written of it."""
    with contextlib.suppress(OSError, ValueError):  # not there, or half-written
        with os.fdopen(open_plain(directory / "jobs" / job / "state.json"), "rb") as file:
            state = json.loads(file.read(JOB_BYTES))
        return str(state.get("needs", "")) if isinstance(state, dict) else ""
    return ""


def config_dirs(told: str | None, home: Path) -> tuple[Path, ...]:
    """One; or several with commas between, as ccusage has it, unless there is one of that very name.

    Claude Code itself knows of one at a time.
    """
    if not told:
        return (home / ".claude",)
    whole = Path(told).expanduser()
    parts = [part.strip() for part in told.split(",")]
    if len(parts) == 1 or whole.is_dir():
        return (whole,)
    return tuple(dict.fromkeys(Path(part).expanduser() for part in parts if part)) or (whole,)


def find_claude(env: Mapping[str, str], home: Path) -> Path | None:
    return find_program("claude", env, home, home / ".claude/local/claude")


def installed_version(
    chosen: Path | None, env: Mapping[str, str], home: Path
) -> tuple[Version | None, Path | None]:
    """See `Installer.program`."""
    return installed(chosen, find_claude(env, home), "claude", "Claude Code")


#: Older versions know no `--json` here, and would start something else.
_FIRST_WITH_JSON = (2, 1, 145)

LIST_TIMEOUT_S = 10.0
QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)
#: A background session's `state` in the words of a living one's `status`; None: it is over.
STATUS_OF = {"working": "busy", "blocked": "waiting", "done": None, "failed": None, "stopped": None}


def ask(program: Path, folders: Iterable[Path], home: Path) -> list[Theirs]:
    """The living sessions of each of the agent's configuration folders. Raises AgentsError."""
    found: list[Theirs] = []
    for folder in folders:
        default = folder == home / ".claude"
        if not ((home if default else folder) / ".claude.json").exists():
            continue  # never started with this folder, and so without sessions
        env = {**os.environ, **dict.fromkeys(QUIET, "1"), "CLAUDE_CONFIG_DIR": str(folder)}
        if default:  # named it would be another place: its `.claude.json` lies outside
            del env["CLAUDE_CONFIG_DIR"]
        found += decode_listed(_run(program, env))
    return found


def _run(program: Path, env: dict[str, str]) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, "agents", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIST_TIMEOUT_S,
            # Not where we are: it would read the settings of a project nobody has trusted.
            cwd="/",
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentsError(f"no answer within {LIST_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise AgentsError(error.strerror or str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise AgentsError(clean(said[0]) if said else f"it ended with {done.returncode}")
    return done.stdout


def decode_listed(raw: bytes) -> list[Theirs]:
    """Living sessions only. A field of another type counts as missing. Raises AgentsError."""
    try:
        listed = json.loads(raw)
    except ValueError as error:
        raise AgentsError("what it printed is not JSON") from error
    if not isinstance(listed, list):
        raise AgentsError("what it printed is no list")
    return [their for entry in listed if isinstance(entry, dict) for their in _living(entry)]


def _living(entry: dict[str, Any]) -> Iterator[Theirs]:
    texts = {name: each for name, each in entry.items() if isinstance(each, str) and each}
    state, session_id, pid = texts.get("state"), texts.get("sessionId"), entry.get("pid")
    pid = pid if type(pid) is int else None
    status = texts.get("status") or STATUS_OF.get(state or "", state)
    over = status is None and state is not None
    # Without either it was dispatched and has not yet begun: nobody can have seen it.
    if not over and (session_id or pid):
        yield Theirs(session_id, pid, status, texts.get("waitingFor"), texts.get("name"))


#: The most that is read of a background job's state file.
JOB_BYTES = 64 << 10
LINUX_POLICY = Path("/etc/claude-code")
MAC_POLICY = Path("/Library/Application Support/ClaudeCode")
PLUGIN = "adsum"
LEFT = "The file is left as it is: correct it, then try again."


@dataclass(frozen=True, slots=True)
class _ClaudeReport(Report):
    """blocked: the file does not permit the address of our hooks. users_own: events hooked by others."""

    blocked: bool = False
    users_own: frozenset[str] = frozenset()

    def wanted(self, version: Version) -> list[str]:
        return events_for(version, self.users_own)

    def astray(self, transport: Transport) -> list[str]:
        return sorted(event for event in self.posted if not is_posted(event, transport))

    def holdable(self, version: Version) -> list[str]:
        return sorted(holdable(version) & self.counts.keys())

    def faults(self) -> list[str]:
        found = []
        if self.disabled:
            found.append('the file says "disableAllHooks": true, so Claude Code runs none')
        if self.blocked:
            found.append('"allowedHttpHookUrls" does not permit their address')
        return found


def project_settings(cwd: Path) -> Path:
    """Of the repository around it, for this user alone."""
    around = (folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists())
    return next(around, cwd) / ".claude" / "settings.local.json"


def install_hooks(wanted: Installation, *, clock: Callable[[], float] = time.time) -> Change:
    """Raises SettingsError, file untouched."""
    target, version = wanted.target, wanted.version
    if version < FIRST_WITH_HTTP:
        raise SettingsError(
            f"Claude Code {_dotted(version)} cannot post hooks; "
            f"{_dotted(FIRST_WITH_HTTP)} and newer can. Upgrade it, then try again."
        )

    def edited(base: str | None) -> str:
        return wrapped(added(base, target, version), target, wanted.statusline)

    return _edit(wanted.path, wanted.state_dir, edited, dry_run=wanted.dry_run, clock=clock)


def remove_hooks(
    path: Path, state_dir: Path, *, dry_run: bool = False, clock: Callable[[], float] = time.time
) -> Change:
    return _edit(path, state_dir, lambda base: base, dry_run=dry_run, clock=clock)


def _edit(
    path: Path,
    state_dir: Path,
    edited: Callable[[str | None], str | None],
    *,
    dry_run: bool,
    clock: Callable[[], float],
) -> Change:
    return edit_settings(
        path,
        state_dir,
        edited,
        stripped=lambda text: stripped(unwrapped(text)),
        tokens=lambda text: tokens_in(_parsed(text, path)),
        dry_run=dry_run,
        clock=clock,
    )


def inspect_hooks(path: Path) -> _ClaudeReport:
    raw = read_settings(path)
    _, text = decode_settings(raw, path)
    settings = _parsed(text, path)
    ours = [(event, hook) for event, hook in hooks_in(settings) if is_ours(hook)]
    counts: dict[str, int] = {}
    for event, _ in ours:
        counts[event] = counts.get(event, 0) + 1
    posted = [(event, hook) for event, hook in ours if hook.get("type") == "http"]
    urls = {hook["url"] for _, hook in posted}
    commands = [command_words(hook) for _, hook in ours if hook.get("type") == "command"]
    waiting = {
        event: hook
        for event, hook in ours
        if hook.get("type") == "command" and command_words(hook)[-1:][0].startswith(HOLD_WORD)
    }
    forms = waiting.get(FORMS, {})
    timeout = forms.get("timeout")
    allowed = settings.get(ALLOWED_URLS)
    return _ClaudeReport(
        path=path,
        exists=raw is not None,
        counts=counts,
        ports=frozenset(urlsplit(url).port or 80 for url in urls),
        posted=frozenset(event for event, _ in posted),
        sockets=sockets_in(settings),
        tokens=tokens_in(settings),
        disabled=settings.get("disableAllHooks") is True,
        blocked=isinstance(allowed, list) and not all(permits(allowed, url) for url in urls),
        users_own=users_own(settings),
        shared=bool((mode_of(path) or 0) & 0o044),
        statusline=statusline_in(settings),
        command=tuple(commands[0]) if commands else None,
        held=frozenset(waiting),
        form_timeout_s=timeout if isinstance(timeout, int | float) else 0 if forms else None,
    )


def _parsed(text: str, path: Path, then: str = LEFT) -> dict[str, Any]:
    """Raises SettingsError naming file, line and column."""
    try:
        return parse_settings(text)
    except JsonTextError as error:
        raise SettingsError(f"{path}, {error}. {then}") from error
    except ShapeError as error:
        raise SettingsError(
            f"{path} is not a settings file of Claude Code: {error}. {then}"
        ) from error


def settings_in(path: Path) -> dict[str, Any]:
    """Empty if there is no such file. Raises SettingsError for what Claude Code would not read."""
    _, text = decode_settings(read_settings(path), path)
    return _parsed(text, path, "Correct the file.")


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def settings_files(directory: Path, cwd: Path, policy: Path | None = None) -> SettingsFiles:
    """Return the settings files that apply to a session started in `cwd`.

    In a folder below a repository's root, Claude Code 2.1.330 reads the root's settings.local.json
    and both files of that folder, but not the root's settings.json. 2.1.112 reads the folder's alone.
    policy: the folder of the administrator's settings.
    """
    own = cwd / ".claude"
    local = dict.fromkeys((project_settings(cwd), own / "settings.local.json"))
    project = (*local, own / "settings.json")
    folder = policy or (MAC_POLICY if sys.platform == "darwin" else LINUX_POLICY)
    managed = [folder / "managed-settings.json", *folder.glob("managed-settings.d/*.json")]
    user = directory / "settings.json"
    hooked: dict[str, Path] = {}
    for path in (user, *project):
        hooked.setdefault(os.path.realpath(path), path)
    return SettingsFiles(
        user=user,
        hooked=tuple(hooked.values()),
        project=project,
        managed=tuple(sorted(managed)),
    )


@dataclass(frozen=True, slots=True)
class ClaudePlugin:
    """id: such as `adsum@adsum`. hooks: as Claude Code keeps them, None where they are not found."""

    id: str
    hooks: Report | None

    @property
    def removal(self) -> str:
        return f"claude plugin uninstall {self.id}"

    def fault(self, version: Version) -> tuple[str, str] | None:
        if version < FIRST_WITH_STATUS:
            first = ".".join(map(str, FIRST_WITH_STATUS))
            what = f"The plugin {self.id} is for Claude Code {first} and newer."
            return what, f"Update Claude Code, or: {self.removal} && adsum hooks install"
        if self.hooks is None:
            what = f"The plugin {self.id} is switched on, but Claude Code holds no hooks of it."
            return what, f"claude plugin install {self.id}"
        if self.hooks.posted:
            what = f"The plugin {self.id} is an older one; its hooks go to a port that others can take."
            return what, f"claude plugin update {self.id}"
        if missing := self.hooks.missing(version):
            what = f"The plugin {self.id} is an older one; it lacks: {', '.join(missing)}."
            return what, f"claude plugin update {self.id}"
        return None


def active_plugin(paths: Iterable[Path], user: Path) -> ClaudePlugin | None:
    """paths: settings files, those that decide first. user: that of the user.

    Raises SettingsError. A plugin that `--plugin-dir` gives a single run is written nowhere.
    """
    decided: dict[str, bool] = {}
    for path in paths:
        enabled = settings_in(path).get("enabledPlugins")
        for plugin, on in (enabled if isinstance(enabled, dict) else {}).items():
            decided.setdefault(str(plugin), on is True)
    for plugin, on in decided.items():
        if on and plugin.split("@")[0] == PLUGIN:
            return ClaudePlugin(plugin, _plugin_hooks(plugin, user.parent / "plugins"))
    return None


def _plugin_hooks(plugin: str, folder: Path) -> Report | None:
    """Of the copy that was installed last. The format is Claude Code's own, so nothing is relied on."""
    try:
        told: Any = json.loads((folder / "installed_plugins.json").read_bytes())
        copy = Path(told["plugins"][plugin][-1]["installPath"])
        report = inspect_hooks(copy / "hooks" / "hooks.json")
    except (OSError, ValueError, LookupError, TypeError, SettingsError):
        return None
    return report if report.exists else None


class _ClaudeInstaller(Installer):
    posts = True
    shows = True
    assumed = ASSUMED
    lists = ("agents --json", _FIRST_WITH_JSON)
    #: An event no agent sends: it becomes evidence of life, which makes no session out of nothing.
    #: Always the same session, so that probes do not add up in a hub's memory.
    probe = b'{"hook_event_name": "AdsumProbe", "session_id": "adsum-probe", "cwd": "/"}'

    files = staticmethod(settings_files)
    program = staticmethod(installed_version)
    inspect = staticmethod(inspect_hooks)
    install = staticmethod(install_hooks)
    remove = staticmethod(remove_hooks)
    sessions = staticmethod(ask)

    def running_version(self, directory: Path) -> Version | None:
        found: list[Version] = []
        for file in (directory / "sessions").glob("*.json"):
            with contextlib.suppress(OSError, RegistryError):
                signals = signals_from_registry(file.read_bytes(), 0)
                named = (each.version for each in signals if isinstance(each, MetaChanged))
                found += [version for each in named if (version := version_in(each or ""))]
        return max(found, default=None)

    def plugin(self, files: SettingsFiles) -> Plugin | None:
        return active_plugin(files.deciding, files.user)

    def hindrance(self, files: SettingsFiles, url: str) -> tuple[str, str] | None:
        settings = {path: settings_in(path) for path in (*files.hooked, *files.managed)}
        for path, held in settings.items():
            if held.get("disableAllHooks") is True:
                what = f'{path} says "disableAllHooks": true, so Claude Code runs none.'
                return what, f"Take it out of {path}."
        for path in files.managed:
            if settings[path].get("allowManagedHooksOnly") is True:
                what = f"{path} allows the administrator's hooks only."
                fix = (
                    "Ask whoever keeps that file. Until then the transcript and the registry tell."
                )
                return what, fix
        lists = {
            path: held[ALLOWED_URLS] for path, held in settings.items() if ALLOWED_URLS in held
        }
        allowed = [url for urls in lists.values() if isinstance(urls, list) for url in urls]
        if lists and not permits(allowed, url):
            what = f'"{ALLOWED_URLS}" in {", ".join(map(str, lists))} does not permit {url}.'
            return what, "Add that address to the list."
        return None

    def switched_off(self, files: SettingsFiles) -> Path | None:
        for path in files.hooked:
            try:
                if settings_in(path).get("disableAllHooks") is True:
                    return path
            except SettingsError:
                continue  # the check of hooks tells of a file that nobody can read
        return None


class ClaudeCode(Agent):
    name = "claude_code"
    title = "Claude Code"
    resume = "claude --resume"
    variable = "CLAUDE_CONFIG_DIR"
    setting = "claude_dirs"
    session_variable = "CLAUDE_CODE_SESSION_ID"
    usage = USAGE_LINES
    installer = _ClaudeInstaller()
    keyboard = KEYBOARD
    transcripts = Transcripts(transcript_file, signals_from_lines, history, written)

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        return config_dirs(env.get(self.variable), home)

    def types_in_vim(self, cwd: Path, env: Mapping[str, str]) -> bool:
        home = Path(env.get("HOME") or Path.home())
        directory = self.directories(env, home)[0]
        own = directory if env.get(self.variable) else home
        files = settings_files(directory, cwd)
        for path in (*files.managed, *files.hooked, own / ".claude.json"):
            with contextlib.suppress(SettingsError):
                if settings_in(path).get("editorMode") == "vim":
                    return True
        return False

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:
        return signals_from_hook(decode_hook(body), seen)

    def registry(
        self, content: bytes, seen: int, directory: Path | None = None
    ) -> Sequence[AnySignal]:
        if directory is None:
            return signals_from_registry(content, seen)
        return signals_from_registry(content, seen, partial(needs_of_job, directory))

    def registry_dir(self, directory: Path) -> Path:
        """Files beside those that are asked for end in `.key` and are secrets."""
        return directory / "sessions"

    def statusline(self, content: bytes, seen: int) -> Sequence[AnySignal]:
        return signals_from_statusline(content, seen)

    def transcript_dirs(
        self, directories: Sequence[Path], env: Mapping[str, str], home: Path
    ) -> tuple[Path, ...]:
        """Also where some releases kept their transcripts, if nobody says where they are."""
        xdg = Path(env.get("XDG_CONFIG_HOME") or home / ".config").expanduser() / "claude"
        usual = not env.get(self.variable) and tuple(directories) == config_dirs(None, home)
        also = (xdg,) if usual and (xdg / "projects").is_dir() else ()
        return tuple(each / "projects" for each in dict.fromkeys((*directories, *also)))

    def hook_file(self, directory: Path) -> Path:
        return directory / "settings.json"

    def look_at_hooks(self, path: Path, port: int) -> HookFile:
        try:
            return HookFile(*_judged(inspect_hooks(path), shown(path), port))
        except SettingsError as error:
            # what it quotes need not be text, and the heartbeat must be
            return HookFile("trouble", str(error).encode(errors="replace").decode())

    def asked(self, body: bytes) -> Asked | None:
        return asked_in(body)

    def past(self, line: bytes) -> Sequence[PastCall | PastDecision]:
        return past_in(line)

    def answer(self, asked: Asked, command: Command) -> bytes:
        return answer_of(asked, command)

    def inbox(self, entry: bytes) -> Path | None:
        return inbox_in(entry)

    def message(self, text: str, by: str) -> bytes:
        return message_to_inbox(text, by)

    def registered(self, content: bytes) -> Registered | None:
        return acting.registered(content)

    def run_words(
        self, words: Sequence[str], env: Mapping[str, str], read: Callable[[str], bytes]
    ) -> RunWords:
        return acting.run_words(words, env, read)

    def resuming(self, session_id: str, flags: Sequence[str], text: str | None) -> list[str]:
        return acting.resuming(session_id, flags, text)

    def has_conversation(self, directory: Path, session_id: str) -> bool:
        return acting.has_conversation(directory, session_id)


def _judged(report: _ClaudeReport, name: str, port: int) -> tuple[str, str | None]:
    again = "Next: adsum hooks install"
    if report.disabled:
        return "trouble", f'{name} says "disableAllHooks": true, so no hook runs. Take that out.'
    if not report.counts:
        return "missing", f"{name} holds none of Adsum's hooks. {again}"
    if report.doubled:
        return "trouble", f"Adsum's hooks stand twice in {name}. {again}"
    if report.blocked:
        return "trouble", f'"allowedHttpHookUrls" in {name} does not permit our hooks. {again}'
    if report.ports - {port}:
        ports = ", ".join(map(str, sorted(report.ports)))
        return "trouble", f"Adsum's hooks in {name} report to port {ports}, not {port}. {again}"
    return "ok", None
