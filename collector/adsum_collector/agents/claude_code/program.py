"""Claude Code on this machine: its directories, its program, which version that is, and its list.

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

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from adsum_collector.agents.installer import AgentsError, Theirs, Version
from adsum_collector.agents.programs import find_program
from adsum_collector.agents.programs import installed_version as installed
from adsum_shared.redact import clean


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
FIRST_WITH_JSON = (2, 1, 145)

TIMEOUT_S = 10.0
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
        found += decode(_run(program, env))
    return found


def _run(program: Path, env: dict[str, str]) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own program, no shell
            [program, "agents", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            # Not where we are: it would read the settings of a project nobody has trusted.
            cwd="/",
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentsError(f"no answer within {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise AgentsError(error.strerror or str(error)) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise AgentsError(clean(said[0]) if said else f"it ended with {done.returncode}")
    return done.stdout


def decode(raw: bytes) -> list[Theirs]:
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
