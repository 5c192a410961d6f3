"""The real Claude Code CLI in a HOME of its own: found or installed, run headless or in tmux."""

from __future__ import annotations

import functools
import json
import os
import platform
import secrets
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CHECKOUT = Path(__file__).resolve().parents[2]
#: env naming a file with other versions than tests/clis.toml: `make nightly-clis` sets it
CLIS_ENV = "ADSUM_CLIS"
#: env naming a file for unknown words of the CLIs: `make nightly-clis` sets it
NEWS_ENV = "ADSUM_CLI_NEWS"
CLIS: dict[str, dict[str, str]] = tomllib.loads(
    Path(os.environ.get(CLIS_ENV) or _CHECKOUT / "tests" / "clis.toml").read_text("utf-8")
)
VERSION = CLIS["claude_code"]["version"]
FIRST_WITH_STATUS = (2, 1, 269)
#: the model is scripted, so the key only has to look like one
API_KEY = "sk-ant-dummy"
#: env naming the folder the CLI is (to be) installed in, else .rig/ of the checkout
CACHE_ENV = "ADSUM_CLAUDE_CLI"
_POLL_S = 0.02


class CliMissingError(Exception):
    """The CLI cannot be had here. Its text is the reason a test gives for skipping."""


@functools.cache
def claude_binary(wanted: str = VERSION) -> Path:
    """The executable of a version, installed from npm on first use; old ones are run by Node."""
    system, machine = platform.system().lower(), platform.machine().lower()
    cpu = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(machine, machine)
    scope = npm_package("claude_code", wanted)
    binary = scope / f"claude-code-{system}-{cpu}" / "claude"
    if not binary.exists() and (scope / "claude-code" / "cli.js").exists():
        return scope.parent / ".bin" / "claude"
    if not binary.exists():
        raise CliMissingError(f"claude-code from npm has no executable for {system}-{cpu}")
    return binary


def npm_package(agent: str, wanted: str) -> Path:
    """Install this version of an agent's package unless it is installed; return its scope's folder."""
    name = CLIS[agent]["package"]
    prefix = Path(os.environ.get(CACHE_ENV) or _CHECKOUT / ".rig") / f"{agent}-{wanted}"
    package = prefix / "node_modules" / name
    if not (package / "package.json").exists():
        prefix.mkdir(parents=True, exist_ok=True)
        where = ("--no-audit", "--no-fund", "--prefix", str(prefix))
        _npm(name, "install", *where, f"{name}@{wanted}")
    return package.parent


def newest_version(agent: str) -> str:
    """The version that npm installs where none is named."""
    name = CLIS[agent]["package"]
    return _npm(name, "view", name, "version").strip()


def _npm(package: str, *words: str) -> str:
    npm, whose = shutil.which("npm"), f"{package.partition('/')[2]} from npm"
    if npm is None:
        raise CliMissingError(f"{whose} cannot be installed: there is no npm on PATH")
    try:
        done = subprocess.run(
            [npm, *words], capture_output=True, text=True, timeout=300, check=True
        )
    except subprocess.TimeoutExpired as error:
        raise CliMissingError(f"{whose} did not arrive within 5 minutes") from error
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.splitlines() if line.startswith("npm e")]
        why = "; ".join(said[:2]) or f"npm ended with {error.returncode}"
        raise CliMissingError(f"{whose} cannot be installed: {why}") from error
    return done.stdout


@dataclass(frozen=True)
class Home:
    """A user who has nothing but the CLI: own HOME, one trusted project folder, nothing inherited.

    extra: further environment of that user. version: of the CLI.
    """

    path: Path
    model_url: str
    extra: dict[str, str] = field(default_factory=dict)
    version: str = VERSION

    @property
    def program(self) -> Path:
        return claude_binary(self.version)

    @property
    def tells_at_once(self) -> bool:
        """Its registry has a status, so a session is listed before its first prompt."""
        return tuple(map(int, self.version.split("."))) >= FIRST_WITH_STATUS

    @property
    def work(self) -> Path:
        return self.path / "project"

    @property
    def settings(self) -> Path:
        return self.path / ".claude" / "settings.json"

    @property
    def env(self) -> dict[str, str]:
        tmp = str(self.path / "tmp")
        return {
            "HOME": str(self.path),
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TMPDIR": tmp,
            "CLAUDE_CODE_TMPDIR": tmp,
            "ANTHROPIC_BASE_URL": self.model_url,
            "ANTHROPIC_API_KEY": API_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
            "IS_SANDBOX": "1",
            **self.extra,
        }

    def seed(self) -> Home:
        """Write what a user has who has answered the CLI's first questions."""
        self.work.mkdir(parents=True)
        (self.path / "tmp").mkdir()
        self.settings.parent.mkdir()
        self.settings.write_text(json.dumps({"skipDangerousModePermissionPrompt": True}))
        answered = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "numStartups": 5,
            "bypassPermissionsModeAccepted": True,
            "customApiKeyResponses": {"approved": [API_KEY[-20:]], "rejected": []},
            "hasSeenTasksHint": True,
            "lastOnboardingVersion": self.version,
            "lastReleaseNotesSeen": self.version,
            "projects": {str(self.work): answered},
        }
        (self.path / ".claude.json").write_text(json.dumps(state))
        return self

    def install_hooks(self, hooks: dict[str, Any]) -> None:
        """Set the `hooks` of the user's settings, whatever they were."""
        settings = json.loads(self.settings.read_text())
        self.settings.write_text(json.dumps({**settings, "hooks": hooks}))

    def run(self, prompt: str, *flags: str, fails: bool = False) -> float:
        """One headless run to its end; the seconds it took. fails: it is to report an error."""
        command = [str(self.program), "-p", prompt, "--output-format", "json", *flags]
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        took = time.perf_counter() - began
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return took

    def transcripts(self) -> list[Path]:
        return sorted((self.path / ".claude" / "projects").rglob("*.jsonl"))

    def told_in(self, session_id: str) -> list[dict[str, Any]]:
        """The whole lines of a session's transcript: the last one may be half written."""
        texts = [each.read_text() for each in self.transcripts() if each.stem == session_id]
        return [json.loads(line) for text in texts for line in text.split("\n")[:-1] if line]


@dataclass(frozen=True)
class Terminal:
    """The CLI in a tmux server of its own, from `with` to the end of its block.

    home: whose CLI, flags: its command line, ready: what stands on the screen once it takes input.
    """

    home: Home
    flags: tuple[str, ...] = ("--permission-mode", "manual")
    ready: str = "? for shortcuts"
    #: its own, because a server that is told to end lets go of its socket only a moment later
    _socket: str = field(default_factory=lambda: f"tmux-{secrets.token_hex(4)}.sock")

    def __enter__(self) -> Terminal:
        own = [f"{name}={value}" for name, value in self.home.env.items()]
        command = ["env", "-i", *own, str(self.home.program), *self.flags]
        place = ["-d", "-x", "140", "-y", "45", "-c", str(self.home.work)]
        self._tmux("new-session", *place, *command)
        self.wait_for(self.ready)
        return self

    def __exit__(self, *_exc: object) -> None:
        # No check: the server ends by itself with the CLI.
        command = ["tmux", "-S", str(self.home.path / self._socket), "kill-server"]
        subprocess.run(command, capture_output=True, check=False)
        self._wait(lambda screen: not screen, "the CLI to end", 5.0)

    @property
    def pid(self) -> int:
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def screen(self, *, colours: bool = False) -> str:
        """What stands on the screen now, with its escape sequences if asked for; empty: ended."""
        try:
            return self._tmux("capture-pane", "-p", *(["-e"] if colours else []))
        except subprocess.CalledProcessError:
            return ""

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, Escape, C-c, 1 …"""
        self._tmux("send-keys", *keys)

    def type(self, text: str, shown: str | None = None) -> None:
        """Type a line and send it. shown: how it stands on the screen, if differently."""
        self._tmux("send-keys", "-l", text)
        self.wait_for(shown or text)
        self.press("Enter")

    def wait_for(self, text: str, timeout: float = 15.0) -> float:
        """The monotonic moment at which the text stood on the screen."""
        return self._wait(lambda screen: text in screen, f"{text!r} to appear", timeout)

    def press_until_gone(self, key: str, text: str, timeout: float = 10.0) -> float:
        """Once the text stands there, press until it has gone; the moment of the last press.

        Again and again, because a dialog swallows what is pressed in its first half second.
        """
        self.wait_for(text)
        deadline = time.monotonic() + timeout
        while True:
            self.press(key)
            pressed = time.monotonic()
            while time.monotonic() < pressed + 0.5:
                if text not in self.screen():
                    return pressed
                time.sleep(_POLL_S)
            if pressed > deadline:
                raise AssertionError(f"{key} does not move {text!r}:\n{self.screen()}")

    def leave(self) -> float:
        """Type /exit; the seconds until the CLI has ended."""
        self.type("/exit")
        began = time.monotonic()
        return self._wait(lambda screen: not screen, "the CLI to end", 15.0) - began

    def _tmux(self, *words: str) -> str:
        # -f: the settings of whoever runs the tests must not change the screen
        command = ["tmux", "-f", "/dev/null", "-S", str(self.home.path / self._socket), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _wait(self, so: Callable[[str], bool], what: str, timeout: float) -> float:
        deadline = time.monotonic() + timeout
        while not so(screen := self.screen()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout} s for {what}:\n{screen}")
            time.sleep(_POLL_S)
        return time.monotonic()
