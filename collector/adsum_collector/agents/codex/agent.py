"""Codex, as the collector knows it: its directories, its hooks in `hooks.json`, and that Codex trusts them."""

from __future__ import annotations

import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from adsum_collector.agents import programs
from adsum_collector.agents.base import (
    Agent,
    Asked,
    HookFile,
    OwnWitness,
    SessionLine,
    Surroundings,
    Transcripts,
)
from adsum_collector.agents.codex.calls import PATCHER
from adsum_collector.agents.codex.hook_events import decoded, signals_from_hook
from adsum_collector.agents.codex.known_threads import KnownThreads
from adsum_collector.agents.codex.rollout import (
    Thread,
    history,
    opening,
    signals_from_lines,
    transcript_file,
    written,
)
from adsum_collector.agents.codex.trust import (
    AppServer,
    app_server,
    listed,
    moved,
    place,
    reload_sessions,
    states,
    trust,
)
from adsum_collector.agents.codex.usage_lines import USAGE_LINES
from adsum_collector.agents.hook_entries import (
    JsonTextError,
    ShapeError,
    command_words,
    parse_settings,
    placed_hooks,
    runs_shim,
    sockets_in,
    with_groups,
    without_hooks,
)
from adsum_collector.agents.installer import (
    Change,
    Installation,
    Installer,
    Plugin,
    Report,
    SettingsError,
    SettingsFiles,
    Target,
    Version,
)
from adsum_collector.agents.records import Lines, Private, TranscriptFile
from adsum_collector.agents.settings_file import (
    decode_settings,
    edit_settings,
    keep_receipt,
    read_settings,
    restored_on_failure,
)
from adsum_collector.errors import shown
from adsum_shared.commands import Command
from adsum_shared.signals import AnySignal

#: Older ones list no hooks, so that nothing could be trusted for their owner.
FIRST: Final[Version] = (0, 130)
#: Before, a hook that need not be waited for is skipped, with a warning at every start.
FIRST_WITH_ASYNC: Final[Version] = (0, 148)
#: Event -> first version seen to have it (0.130, 0.140, 0.145, 0.147, 0.148, 0.150, 0.160, 0.162,
#: 0.163, 0.165 and 0.169 were asked). One that a version does not have would be untrusted when the
#: next one has it, and Codex would ask the user to review it.
#:
#: Left out: PreModelRequest, which tells nothing that PostModelRequest and the rollout do not.
SINCE: Final[dict[str, Version]] = {
    "SessionStart": FIRST,
    "SessionEnd": (0, 145),
    "UserPromptSubmit": FIRST,
    "PreToolUse": FIRST,
    "PermissionRequest": FIRST,
    "PostToolUse": FIRST,
    "PreCompact": FIRST,
    "PostCompact": FIRST,
    "SubagentStart": (0, 140),
    "SubagentStop": (0, 140),
    "Stop": FIRST,
    "Interrupt": (0, 150),
    "PostModelRequest": (0, 165),
}
#: Codex gives these no more time, and warns at every start if they are to have more.
SHORT: Final = frozenset({"SessionEnd", "Interrupt"})
SHORT_S: Final = 3
#: Longer than the shim ever takes: a hook that runs out of time is shown to the user.
TIMEOUT_S: Final = 10
#: Whose hook it is, where its process's id would stand (Codex says it nowhere), and its name.
SHIM_WORDS: Final = ("codex", "ADSUM_AGENT_PID", "codex")
#: Codex shows every exit code but 0, and takes 2, with which Python ends if the shim is gone, for a
#: refusal. By sh, whatever the user's shell is, which Codex runs hooks with; and with exec, so that
#: whoever starts the shim is no shell.
SCRIPT: Final = 'command -v "$0" >/dev/null && test -r "$3" && export ADSUM_WITHIN_S=2 && exec "$0" "$@"; exit 0'
#: Of a plugin, where its hooks lie below its own folder.
PLUGIN: Final = "adsum"
PLUGIN_HOOKS: Final = "hooks/codex.json"


def events_for(version: Version) -> list[str]:
    return [event for event, since in SINCE.items() if since <= version]


def group_for(event: str, target: Target, version: Version) -> dict[str, Any]:
    words = [target.python, "-I", "-S", str(target.shim), str(target.socket), *SHIM_WORDS]
    command = shlex.join(["/bin/sh", "-c", SCRIPT, *words])
    timeout = SHORT_S if event in SHORT else TIMEOUT_S
    hook = {"type": "command", "command": command, "timeout": timeout}
    # The end of a session is waited for in any case; otherwise wished, that is warned of.
    if version >= FIRST_WITH_ASYNC and event != "SessionEnd":
        hook |= {"async": True}
    return {"hooks": [hook]}


@dataclass(frozen=True, slots=True)
class CodexReport(Report):
    def wanted(self, version: Version) -> Sequence[str]:
        return events_for(version)

    #: What in it, perhaps of its owner's own, makes Codex skip the whole file.
    stumbles_at: str | None = None

    def faults(self) -> list[str]:
        off = [SWITCHED_OFF.format(self.path.with_name(CONFIG))] if self.disabled else []
        skipped = [SKIPPED.format(self.path, self.stumbles_at)] if self.stumbles_at else []
        return off + skipped


CONFIG: Final = "config.toml"
SKIPPED: Final = "{} holds {}, so Codex skips the whole file and runs none of its hooks"
SWITCHED_OFF: Final = '{} says "hooks = false" below [features], so Codex runs none'


def inspect_hooks(
    path: Path, config: Mapping[str, Any] | None = None, known_as: Path | None = None
) -> CodexReport:
    """config: beside it, unless given. known_as: how `config.toml` calls the file."""
    _, text = decode_settings(raw := read_settings(path), path)
    settings = _parsed(text, path)
    ours = [each for each in placed_hooks(settings) if runs_shim(each[3])]
    config = config_in(path.with_name(CONFIG)) if config is None else config
    known = states(config, known_as or path) if ours else {}
    words = [_words_of_shim(hook) for *_, hook in ours]
    return CodexReport(
        path=path,
        exists=raw is not None,
        counts=dict(Counter(event for event, *_ in ours)),
        sockets=sockets_in(settings),
        untrusted=tuple(
            event for event, *at, _ in ours if not _is_trusted(known.get(place(event, *at), {}))
        ),
        disabled=_switches_off(config),
        command=words[0] if words else None,
        stumbles_at=_stumbles_at(settings),
    )


def _stumbles_at(settings: Mapping[str, Any]) -> str | None:
    """Seen with 0.169.0, which says it in a warning at its start and goes on."""
    if any(
        isinstance(hook, dict) and hook.get("type") == "http" for *_, hook in placed_hooks(settings)
    ):
        return 'a hook of the type "http"'
    strange = sorted(settings.keys() - {"hooks", "description"})
    return f'the key "{strange[0]}"' if strange else None


def _is_trusted(state: Mapping[str, Any]) -> bool:
    return "trusted_hash" in state and state.get("enabled", True) is True


def _switches_off(config: Mapping[str, Any]) -> bool:
    features = config.get("features")
    return isinstance(features, dict) and features.get("hooks") is False


def _words_of_shim(hook: Mapping[str, Any]) -> tuple[str, ...]:
    """Without the shell that runs them."""
    words = command_words(hook)
    return tuple(words[3:] if SCRIPT in words else words)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return parse_settings(text)
    except (JsonTextError, ShapeError) as error:
        raise SettingsError(
            f"{path}, {error}. It is left as it is: correct it, then try again."
        ) from error


def config_in(path: Path) -> dict[str, Any]:
    """Empty if there is no such file. Raises SettingsError for what Codex would not read."""
    _, text = decode_settings(read_settings(path), path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"{path}: {error}. Codex does not start with it: correct it."
        ) from error


def install_hooks(wanted: Installation) -> Change:
    """Raises SettingsError, both files and what is known of them as they were."""
    path, version = wanted.path, wanted.version
    if version < FIRST:
        raise SettingsError(
            f"Hooks are for Codex {_dotted(FIRST)} and newer, and this is {_dotted(version)}. "
            "Upgrade it, then try again."
        )
    groups = {event: group_for(event, wanted.target, version) for event in events_for(version)}

    def put(*, dry_run: bool) -> Change:
        added = lambda base: with_groups(base if base and base.strip() else "{}\n", groups)  # noqa: E731 - one line
        return _edit(path, wanted.state_dir, added, dry_run=dry_run)

    if wanted.dry_run:
        return put(dry_run=True)
    if wanted.program is None:
        raise SettingsError(
            f"Codex was not found, and nobody else can trust its hooks. {programs.name_it('codex')}"
        )
    with app_server(wanted.program, path.parent) as app:
        _, usual = listed(app, path)
        try:
            with restored_on_failure(wanted.state_dir, path, path.with_name(CONFIG)):
                return _trusted(app, put(dry_run=False), wanted.state_dir, usual)
        except SettingsError:
            # Sessions of the background server may have taken up what was not answered.
            reload_sessions(path.parent)
            raise


def _trusted(app: AppServer, change: Change, state_dir: Path, usual: Sequence[str]) -> Change:
    """With our hooks trusted, and no others. usual: what Codex warned of before."""
    path = change.path
    found, warnings = listed(app, path)
    now = _places(change.after, path)
    ours = {at: found.get(at) for at, is_ours in now.items() if is_ours}
    if None in ours.values() or (warnings := [each for each in warnings if each not in usual]):
        said = "; ".join(warnings) or "none of its words say why; see `/hooks` in Codex"
        raise SettingsError(f"Codex would not run hooks of {path} as they should be: {said}.")
    untrusted = tuple(at for at, hook in ours.items() if hook and not hook.runs)
    if not untrusted and change.before == change.after:
        return change
    _move_trust(change, state_dir)
    config = path.with_name(CONFIG)
    before = read_settings(config)
    trust(app, filter(None, ours.values()))
    keep_receipt(config, state_dir, before)
    return replace(change, trusted=len(untrusted))


def remove_hooks(path: Path, state_dir: Path, *, dry_run: bool) -> Change:
    change = _edit(path, state_dir, lambda base: base, dry_run=dry_run)
    if change.needed and not dry_run:
        _move_trust(change, state_dir)
        reload_sessions(path.parent)
    return change


def _move_trust(change: Change, state_dir: Path) -> None:
    """Takes it from hooks of ours that stood there, and leaves it to the user's that have moved."""
    before, after = (_places(raw, change.path) for raw in (change.before, change.after))
    moves: dict[str, str | None] = dict.fromkeys((at for at, ours in before.items() if ours), None)
    kept, left = ([at for at, ours in each.items() if not ours] for each in (before, after))
    moves |= {old: new for old, new in zip(kept, left, strict=True) if old != new}
    edit_settings(
        change.path.with_name(CONFIG),
        state_dir,
        lambda base: base,
        stripped=lambda text: moved(text, change.path, moves),
        tokens=lambda _text: frozenset(),
        dry_run=False,
    )


def _places(raw: bytes | None, path: Path) -> dict[str, bool]:
    """Of each hook, whether it is ours."""
    hooks = placed_hooks(_parsed(decode_settings(raw, path)[1], path))
    return {place(event, *at): runs_shim(hook) for event, *at, hook in hooks}


def _edit(
    path: Path, state_dir: Path, edited: Callable[[str | None], str | None], *, dry_run: bool
) -> Change:
    def tokens(text: str) -> frozenset[str]:
        _parsed(text, path)
        return frozenset()

    return edit_settings(
        path,
        state_dir,
        edited,
        stripped=lambda text: without_hooks(text, runs_shim),
        tokens=tokens,
        dry_run=dry_run,
    )


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class CodexPlugin:
    """id: such as `adsum@adsum`. hooks: as Codex keeps them, None where they are not found."""

    id: str
    hooks: Report | None

    @property
    def removal(self) -> str:
        return f"codex plugin remove {self.id}"

    def fault(self, version: Version) -> tuple[str, str] | None:
        name = f"The plugin {self.id}"
        if version < FIRST_WITH_ASYNC:
            what = f"{name} is for Codex {_dotted(FIRST_WITH_ASYNC)} and newer."
            return what, f"Update Codex, or: {self.removal} && adsum hooks install --agent codex"
        if self.hooks is None:
            what = f"{name} is switched on, but Codex holds no hooks of it."
            return what, f"codex plugin add {self.id}"
        if missing := self.hooks.missing(version):
            what = f"{name} is an older one; it lacks: {', '.join(missing)}."
            return what, f"{self.removal} && codex plugin add {self.id}"
        if self.hooks.untrusted:
            what = f"{name} is not trusted, so Codex skips its hooks."
            return what, "Start `codex`: it asks whether to trust them."
        return None


def active_plugin(directory: Path) -> CodexPlugin | None:
    """The one that is switched on. Raises SettingsError."""
    config = config_in(directory / CONFIG)
    plugins = config.get("plugins")
    for plugin, said in (plugins if isinstance(plugins, dict) else {}).items():
        name, _, market = plugin.partition("@")
        if name == PLUGIN and isinstance(said, dict) and said.get("enabled", True) is True:
            copies = (directory / "plugins" / "cache" / market / name).glob(f"*/{PLUGIN_HOOKS}")
            newest = max(copies, key=lambda path: path.stat().st_mtime, default=None)
            known_as = Path(f"{plugin}:{PLUGIN_HOOKS}")
            return CodexPlugin(plugin, newest and inspect_hooks(newest, config, known_as))
    return None


def find_codex(env: Mapping[str, str], home: Path) -> Path | None:
    return programs.find_program("codex", env, home)


class _CodexInstaller(Installer):
    assumed = FIRST
    probe = b'{"hook_event_name": "AdsumProbe", "session_id": "adsum-probe", "cwd": "/"}'
    several = True
    asks = "Codex runs a hook only once it is trusted: Adsum's are, by Codex itself, and no others."
    heard = (
        "Sessions that start from now on report, and those of Codex's background server at once."
    )

    inspect = staticmethod(inspect_hooks)
    install = staticmethod(install_hooks)
    remove = staticmethod(remove_hooks)

    def files(self, directory: Path, cwd: Path) -> SettingsFiles:  # noqa: ARG002 - a repository's are everybody's
        path = directory / "hooks.json"
        return SettingsFiles(path, (path,))

    def program(
        self, chosen: Path | None, env: Mapping[str, str], home: Path
    ) -> tuple[Version | None, Path | None]:
        return programs.installed_version(chosen, find_codex(env, home), "codex", "Codex")

    def plugin(self, files: SettingsFiles) -> Plugin | None:
        return active_plugin(files.user.parent)

    def hindrance(self, files: SettingsFiles, url: str) -> tuple[str, str] | None:  # noqa: ARG002 - none is posted
        config = files.user.with_name(CONFIG)
        if _switches_off(config_in(config)):
            return f"{SWITCHED_OFF.format(config)}.", f"Take it out of {config}."
        return None


ARCHIVE: Final = "archived_sessions"


class Codex(Agent):
    """Hooks do not tell who answers a permission request, and the rollout does, with every turn.

    So what was read there last is kept in mind, the one thing here that is. The line is written at
    the turn's begin, and a model has to answer before anything is asked. Where no rollout was read,
    a human is asked: better once too often than never.

    Nor do they tell when the turn is over: Stop comes before the user's own hooks on it have run,
    which may take minutes and send the agent on, and the rollout's line after (17 ms later in the
    median where there are none). So Stop ends no turn whose lines are read. Where they are not, it
    does, for nothing else will tell. (Rejected: to hold the end back in the hub, as for an agent
    whose registry stays busy. Codex has none, and the line comes at every end.)
    """

    name = "codex"
    title = "Codex"
    resume = "codex resume"
    variable = "CODEX_HOME"
    setting = "codex_dirs"
    session_variable = "CODEX_THREAD_ID"
    usage = USAGE_LINES
    installer = _CodexInstaller()
    control_note = (
        "Of Codex that counts for the sessions of its background server alone. What runs in a terminal "
        "of its own (--no-daemon, codex exec, versions before 0.157) is answered there."
    )
    #: How the processes are called that run sessions: a terminal's own, `codex exec`, and the server.
    processes: ClassVar[tuple[str, ...]] = ("codex",)

    def __init__(self) -> None:
        self.threads = KnownThreads()
        self._servers: list[SessionLine] = []

    @property
    def transcripts(self) -> Transcripts:
        return Transcripts(transcript_file, self.read, history, written, opening)

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        told = env.get(self.variable)
        return (Path(told).expanduser() if told else home / ".codex",)

    def transcript_dirs(
        self,
        directories: Sequence[Path],
        env: Mapping[str, str],  # noqa: ARG002 - for those who look elsewhere too
        home: Path,  # noqa: ARG002 - as env
    ) -> tuple[Path, ...]:
        """Also where sessions are put that were archived."""
        return tuple(each / name for each in directories for name in ("sessions", ARCHIVE))

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:
        told = decoded(body)
        known = self.threads.get(str(told.get("session_id")))
        reviewed = known is not None and known.reviewed
        is_read = known is not None and known.turn is not None and known.turn == told.get("turn_id")
        signals = signals_from_hook(told, seen, reviewed=reviewed, is_read=is_read)
        session = signals[0].session_id
        self.threads.learn(session)
        child = signals[0].agent_id
        if child:
            self.threads.learn(child, "child", session)
        if told.get("tool_name") == PATCHER and isinstance(told.get("tool_input"), dict):
            self.threads.keep_patch(told.get("tool_use_id"), told["tool_input"].get("command"))
        self.threads.note(child or session, signals)
        self.threads.hear(str(told.get("hook_event_name")), child or session, signals)
        return signals

    def own_witnesses(
        self, directories: Sequence[Path], around: Surroundings
    ) -> Sequence[OwnWitness]:
        """Imported here: the process that reads usage starts without them."""
        from adsum_collector.agents.codex.live_threads import LiveThreads
        from adsum_collector.agents.codex.server_status import ServerStatus

        found: list[OwnWitness] = []
        self._servers = []
        for each in directories:
            of = f" of {shown(each)}" if len(directories) > 1 else ""
            server = ServerStatus(each, self.threads, around, f"server{of}")
            self._servers.append(server)
            found += [server, LiveThreads(each, self.threads, around, f"threads{of}")]
        return found

    def answer(self, asked: Asked, command: Command) -> bytes:
        """Imported here: as the witnesses."""
        from adsum_collector.agents.codex.requests import answer_of

        return answer_of(asked, command)

    def message(self, text: str, by: str) -> bytes:  # noqa: ARG002 - it is said as its user's own words
        from adsum_collector.agents.codex.requests import sayable

        return sayable(text).encode()

    def out_of_reach(self, session_id: str) -> str | None:
        reached = self.line_to(session_id) is not None
        return None if reached else f"no background server runs it. {self.control_note}"

    def line_to(self, session_id: str) -> SessionLine | None:
        return next((each for each in self._servers if each.status_of(session_id)), None)

    def hook_file(self, directory: Path) -> Path:
        return directory / "hooks.json"

    def look_at_hooks(self, path: Path, port: int) -> HookFile:  # noqa: ARG002 - none is posted
        """Whether they are trusted is not asked: that stands in another file, which changes often."""
        again = "Next: adsum hooks install --agent codex"
        try:
            report = inspect_hooks(path)
        except SettingsError as error:
            return HookFile("trouble", str(error).encode(errors="replace").decode())
        if faults := report.faults():
            return HookFile("trouble", f"{faults[0]}. Take that out.")
        if report.doubled:
            return HookFile("trouble", f"Adsum's hooks stand twice in {shown(path)}. {again}")
        if not report.counts:
            return HookFile("missing", f"{shown(path)} holds none of Adsum's hooks. {again}")
        return HookFile("ok")

    def read(
        self,
        lines: Sequence[bytes],
        file: TranscriptFile,
        context: str,
        now: int,
        meta: bytes | None,
        private: Private,
    ) -> Lines:
        said = signals_from_lines(lines, file, context, now, meta, private)
        known = Thread.of(said.context)
        self.threads.note(file.session_id, said.signals)
        if known.kind == "session":
            thread = self.threads.learn(file.session_id)
            thread.turn, thread.reviewed = known.turn, known.reviewed
        elif known.kind == "child":
            self.threads.learn(file.session_id, "child", known.session)
        elif known.kind == "hidden":
            self.threads.learn(file.session_id, "hidden", known.session)
        return said
