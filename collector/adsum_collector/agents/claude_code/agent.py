"""Claude Code, as the collector knows it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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
from adsum_collector.agents.claude_code.install import (
    ClaudeInstaller,
    ClaudeReport,
    config_dirs,
    inspect_hooks,
)
from adsum_collector.agents.claude_code.lines import (
    history,
    signals_from_lines,
    transcript_file,
    written,
)
from adsum_collector.agents.claude_code.status import signals_from_registry, signals_from_statusline
from adsum_collector.agents.claude_code.usage_lines import USAGE_LINES
from adsum_collector.agents.installer import SettingsError
from adsum_collector.errors import shown
from adsum_shared.commands import Command
from adsum_shared.signals import AnySignal


class ClaudeCode(Agent):
    name = "claude_code"
    title = "Claude Code"
    resume = "claude --resume"
    variable = "CLAUDE_CONFIG_DIR"
    setting = "claude_dirs"
    session_variable = "CLAUDE_CODE_SESSION_ID"
    usage = USAGE_LINES
    installer = ClaudeInstaller()
    keyboard = KEYBOARD
    transcripts = Transcripts(transcript_file, signals_from_lines, history, written)

    def directories(self, env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
        return config_dirs(env.get(self.variable), home)

    def hook(self, body: bytes, seen: int) -> Sequence[AnySignal]:
        return signals_from_hook(decode_hook(body), seen)

    def registry(self, content: bytes, seen: int) -> Sequence[AnySignal]:
        return signals_from_registry(content, seen)

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


def _judged(report: ClaudeReport, name: str, port: int) -> tuple[str, str | None]:
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
