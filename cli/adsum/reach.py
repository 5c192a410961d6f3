"""`adsum open` and `adsum attach` lead to a session: to its page, or to its terminal, by tmux."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from adsum.client import fetch, home_of, hub_url, session_named
from adsum.config import read_settings
from adsum.outcome import CommandError, Exit, agrees, put, say
from adsum_shared.private_files import write_private
from adsum_shared.redact import clean
from adsum_shared.state import SessionView

#: Where sessions run that were resumed from here.
OURS = ("-L", "adsum")
#: Of each pane: its terminal, its first process, and what tmux calls it.
PANES = ("list-panes", "-a", "-F", "#{pane_tty} #{pane_pid} #{pane_id}")
#: ssh takes a word that begins with - for an option, and a label may be anything.
SSH_NAME = re.compile(r"[A-Za-z0-9_][\w.@:%-]{0,252}")
TMUX_WAIT_S = 5
#: In the state directory: the id and label of each machine that a person has agreed to reach by ssh.
SSH_NAMES = "ssh-names"
#: By which ssh ends for a reason of its own, as for a name that it does not know.
SSH_FAILED = 255


def open_dashboard(
    session: str | None, *, only_print: bool, hub: str | None, state_dir: Path | None
) -> None:
    url = hub_url(hub, state_dir)
    asks = asks_to_sign_in(url)
    page = "" if session is None else page_of(session_named(url, session))
    address = f"{url}/{page}"
    put(address)  # either way, so that a script can take it
    if only_print:
        return
    if not has_browser(os.environ, sys.platform) or not opened(address):
        say("adsum: No browser can be opened from here: open the address above in one.")
    if asks:
        say("If it asks you to sign in: adsum login")


def asks_to_sign_in(url: str) -> bool:
    """Raises CommandError if nobody answers there."""
    try:
        return bool(fetch(url, "/api/v1/me").get("sign_in", True))
    except CommandError as error:
        # A browser needs no token of ours: it has a cookie, or is sent to sign in.
        if error.code is Exit.AUTH:
            return True
        raise


def page_of(view: SessionView) -> str:
    """The path of a session's page without its first slash."""
    return f"sessions/{quote(view.id, safe=':')}"


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """One with windows: a text browser would take the terminal over."""
    if environ.get("BROWSER"):
        return True
    if platform == "darwin":
        return not environ.get("SSH_CONNECTION")
    return any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))


def opened(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


@dataclass(frozen=True, slots=True)
class Pane:
    """server: the words that name tmux's, if it is not the usual one."""

    terminal: str
    pid: int
    name: str
    server: tuple[str, ...] = ()


def attach(
    session: str, ssh: str | None, *, only_print: bool, hub: str | None, state_dir: Path | None
) -> int:
    from adsum.machine import host_id_of

    view = session_named(hub_url(hub, state_dir), session)
    command = command_for(view, host_id_of(home_of(state_dir)), ssh)
    if only_print:
        put(shlex.join(command))
        return 0
    if command[0] == "ssh" and ssh is None:
        require_agreed(view, home_of(state_dir))
    if command[0] != "ssh" or ssh is not None:
        os.execvp(command[0], command)  # noqa: S606 - its words are ours; see SSH_NAME
    return run_ssh(command, view)


def require_agreed(view: SessionView, home: Path) -> None:
    """Ask before the first ssh to the label of this machine. Raises CommandError."""
    file, name = home / SSH_NAMES, f"{view.host_id} {view.host}"
    known = file.read_text().splitlines() if file.exists() else []
    if name in known:
        return
    question = (
        f"Connect by ssh to {view.host}? A machine (id {view.host_id[:8]}) calls itself so. [Y/n] "
    )
    if not sys.stdin.isatty() or not agrees(question):
        step = f"adsum attach {clean(view.session_id)[:8]} --ssh NAME"
        raise CommandError(f"Nobody has agreed to ssh to {view.host}. To name it yourself: {step}")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(file, "".join(f"{each}\n" for each in [*known, name]).encode())


def run_ssh(command: list[str], view: SessionView) -> int:
    """Its exit code. What to do is said where a machine's label is no name for ssh."""
    code = subprocess.call(command)  # noqa: S603 - its words are ours; see SSH_NAME
    if code == SSH_FAILED:
        step = f"adsum attach {clean(view.session_id)[:8]} --ssh NAME"
        say(f"adsum: ssh failed. If it knows {clean(view.host)} by another name: {step}")
    return code


def command_for(view: SessionView, here: str | None, ssh: str | None = None) -> list[str]:
    """here: this machine's id. ssh: what ssh calls the other machine, if not by its label."""
    name = f"Session {clean(view.session_id)[:8]}"
    if view.state.state == "suspended":
        raise CommandError(f"{name} is suspended. Next: adsum resume {clean(view.session_id)[:8]}")
    if view.pid is None:
        why = "has ended" if view.ended_at else "has not told which process it runs in"
        raise CommandError(f"{name} {why}, so there is no terminal to attach to.")
    if view.host_id != here:
        return _over_ssh(view, name, ssh)
    if (own := _in_its_background(view)) is not None:
        return own
    if shutil.which("tmux") is None:
        raise CommandError(
            f"{name} runs on this machine as process {view.pid}, and tmux is not installed. Only a "
            "terminal that tmux keeps can be attached to."
        )
    pane = pane_of(all_panes(), *terminal_and_ancestors(name, view.pid))
    if pane is None:
        raise CommandError(
            f"{name} runs on this machine as process {view.pid}, outside tmux. A plain terminal "
            "cannot be attached to: look for its window, or start `claude` within tmux next time."
        )
    return local_command(pane, os.environ)


def _in_its_background(view: SessionView) -> list[str] | None:
    """What opens a session that its agent keeps in the background, by the agent's own registry."""
    from adsum_collector.agents import known_agents
    from adsum_collector.settings import CollectorSettings

    settings = read_settings(CollectorSettings)
    for agent in known_agents():
        for directory in settings.directories_of(agent):
            folder = agent.registry_dir(directory)
            file = folder and folder / f"{view.pid}.json"
            told = agent.registered(file.read_bytes()) if file and file.is_file() else None
            if told is not None and told.session_id == view.session_id and told.attach:
                return list(told.attach)
    return None


def _over_ssh(view: SessionView, name: str, ssh: str | None) -> list[str]:
    target = ssh or view.host
    if SSH_NAME.fullmatch(target) is None or (ssh is None and "@" in target):
        raise CommandError(
            f"{name} runs on {clean(view.host)}, which is no name that ssh takes. Give one with "
            "--ssh."
        )
    if view.reachability == "offline":
        raise CommandError(f"{name} runs on {clean(view.host)}, which nobody hears at present.")
    if shutil.which("ssh") is None:
        raise CommandError(f"{name} runs on {clean(view.host)}, and ssh is not installed here.")
    return ["ssh", "-t", "--", target, remote_script(view.pid or 0)]


def remote_script(pid: int) -> str:
    """For a plain sh: finds the pane by the terminal, else by an ancestor, and says if there is none."""
    return (
        f"t=$(ps -o tty= -p {pid} | tr -d ' '); n=; "
        f'for s in default {OURS[1]}; do [ -n "$n" ] && break; p={pid}; S=$s; '
        "l=$(tmux -L $s list-panes -a -F '#{pane_tty} #{pane_pid} #{pane_id}' 2>/dev/null); "
        'while [ -z "$n" ] && [ -n "$p" ] && [ "$p" -gt 1 ]; do '
        'n=$(echo "$l" | awk -v t="/dev/$t" -v p="$p" \'$1 == t || $2 == p {print $3; exit}\'); '
        "p=$(ps -o ppid= -p $p | tr -d ' '); done; done; "
        f'[ -n "$n" ] || {{ echo "Process {pid} does not run within tmux on this machine." >&2; '
        "exit 1; }; "
        'tmux -L $S select-window -t "$n" && tmux -L $S select-pane -t "$n" && '
        'exec tmux -L $S attach -t "$n"'
    )


def pane_of(
    panes: Collection[Pane], terminal: str | None, ancestors: Collection[int]
) -> Pane | None:
    """By its terminal; else a pane whose first process began all this, as under `script`."""
    found = [pane for pane in panes if terminal and pane.terminal == terminal]
    found += [pane for pane in panes if pane.pid in ancestors]
    return found[0] if found else None


def local_command(pane: Pane, environ: Mapping[str, str]) -> list[str]:
    """Within tmux this terminal's client goes there; a client inside a client would be a trap.

    No client goes from one server to another, so there it is one inside another, or nothing.
    """
    choose = ["select-window", "-t", pane.name, ";", "select-pane", "-t", pane.name, ";"]
    inside = bool(environ.get("TMUX"))
    go = "switch-client" if inside and not pane.server else "attach-session"
    outside = ["env", "-u", "TMUX"] if inside and pane.server else []
    return [*outside, "tmux", *pane.server, *choose, go, "-t", pane.name]


def all_panes() -> list[Pane]:
    return [*_panes_on(()), *_panes_on(OURS)]


def _panes_on(server: tuple[str, ...]) -> list[Pane]:
    try:
        said = subprocess.run(  # noqa: S603 - our words
            ["tmux", *server, *PANES],  # noqa: S607 - the user's own tmux
            capture_output=True,
            text=True,
            timeout=TMUX_WAIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"tmux does not answer within {TMUX_WAIT_S} s.") from error
    return panes_in(said.stdout, server)


def panes_in(text: str, server: tuple[str, ...] = ()) -> list[Pane]:
    words = [line.split(" ") for line in text.splitlines()]
    return [
        Pane(each[0], int(each[1]), each[2], server)
        for each in words
        if len(each) == 3 and each[1].isdecimal()
    ]


def terminal_and_ancestors(name: str, pid: int) -> tuple[str | None, list[int]]:
    import psutil

    try:
        process = psutil.Process(pid)
        return process.terminal(), [pid, *(each.pid for each in process.parents())]
    except psutil.NoSuchProcess as error:
        raise CommandError(f"{name} ran as process {pid}, which is gone.") from error
    except psutil.AccessDenied as error:
        raise CommandError(
            f"{name} runs as process {pid}, which belongs to another user: ask them."
        ) from error
