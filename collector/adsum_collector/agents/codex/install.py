"""Puts our hooks into Codex's `hooks.json`, has Codex trust them, takes them out, and looks at them."""

import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from adsum_collector.agents import programs
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
from adsum_collector.agents.settings_file import (
    decode_settings,
    edit_settings,
    keep_receipt,
    read_settings,
    write_settings,
)

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
    """Raises SettingsError, both files as they were."""
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
        change = put(dry_run=False)
        try:
            return _trusted(app, change, wanted.state_dir, usual)
        except SettingsError:
            _undo(change, wanted.state_dir)
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


def _undo(change: Change, state_dir: Path) -> None:
    if change.before is None:
        remove_hooks(change.path, state_dir, dry_run=False)
    elif change.before != change.after:
        write_settings(change.path, change.before)


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


class CodexInstaller(Installer):
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
