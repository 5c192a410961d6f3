"""`adsum control` as the owner of a machine meets it."""

import io
import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import redis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from adsum.hooks import put_back
from adsum_collector.control.consent import FILE, Trail, keep_consent, read_consent
from adsum_collector.control.consent import TRAIL_FILE as TRAIL
from adsum_collector.control.policy import policy_file
from adsum_shared import streams
from adsum_shared.commands import key_id
from tests.control import SESSION
from tests.integration.conftest import Run, claude

pytestmark = pytest.mark.redis


def new_key() -> dict[str, str]:
    public = Ed25519PrivateKey.generate().public_key()
    return {key_id(public): public.public_bytes_raw().hex()}


class HubOfKeys(BaseHTTPRequestHandler):
    """A hub, as far as `adsum control` asks one."""

    keys: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        assert self.path == "/api/v1/command-keys"
        body = json.dumps({"schema": 1, "keys": self.keys}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[HubOfKeys]]:
    """The hub that this machine asks; it names no key yet."""
    HubOfKeys.keys = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), HubOfKeys) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("ADSUM_HUB_URL", f"http://127.0.0.1:{server.server_port}")
        yield HubOfKeys
        server.shutdown()


@pytest.fixture
def key(hub: type[HubOfKeys]) -> str:
    """The id of that hub's key."""
    hub.keys = new_key()
    return next(iter(hub.keys))


def hooks_of(home: Path, event: str) -> str:
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    return json.dumps(settings["hooks"][event])


def test_it_is_off_until_it_is_agreed_to_and_off_again(home: Path, run: Run, key: str) -> None:
    claude(home, "2.1.330")
    run("hooks", "install", "--transport", "http")
    before = (home / ".claude" / "settings.json").read_bytes()
    assert json.loads(run("control", "--json")[1])["control"] == "off"

    code, _, err = run("control", "approve", "--until", "8h", "--yes")

    assert code == 0, err
    assert key in err
    assert "It ends" in err
    told = json.loads(run("control", "--json")[1])
    assert (told["control"], told["keys"]) == ("approve", [key])
    assert told["until"]
    assert "--hold" in hooks_of(home, "PermissionRequest")
    assert "async" not in hooks_of(home, "PermissionRequest")
    assert "--hold" not in hooks_of(home, "PreToolUse")
    assert run("hooks", "status")[0] == 0
    assert not (home / "state" / FILE).stat().st_mode & 0o077
    assert run("control", "off")[0] == 0
    assert (home / ".claude" / "settings.json").read_bytes() == before
    assert json.loads(run("control", "--json")[1])["control"] == "off"


def test_it_takes_a_yes(home: Path, run: Run, key: str) -> None:
    claude(home, "2.1.330")

    code, _, err = run("control", "approve")
    assert code == 1
    assert "it takes a yes" in err
    assert "Codex" not in err
    (home / ".codex").mkdir()
    assert "background server alone" in run("control", "approve")[2]
    assert run("control", "approve", "--dry-run")[0] == 0

    assert read_consent(home / "state").level == "off"


def test_what_cannot_be_is_said_and_nothing_changes(
    home: Path, run: Run, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude(home, "2.1.330")
    code, _, err = run("control", "approve", "--until", "soon", "--yes")
    assert (code, "'soon' is no time span" in err) == (2, True)
    monkeypatch.setenv("ADSUM_PRIVACY", "metadata")

    code, _, err = run("control", "approve", "--yes")

    assert (code, "nobody elsewhere could know what they decide" in err) == (2, True)
    assert not (home / "state" / FILE).exists()


@pytest.mark.parametrize("level", ["approve", "full"])
def test_an_empty_time_span_is_no_consent_without_an_end(
    home: Path, run: Run, key: str, level: str
) -> None:
    claude(home, "2.1.330")

    code, _, err = run("control", level, "--until", "", "--yes")

    assert (code, "'' is no time span" in err) == (2, True)
    assert not (home / "state" / FILE).exists()


@pytest.mark.parametrize(
    ("option", "why"), [("--since", "'' is no time span"), ("--session", "id is empty")]
)
def test_an_empty_word_is_not_the_whole_trail(home: Path, run: Run, option: str, why: str) -> None:
    (home / "state").mkdir(mode=0o700)
    Trail(home / "state").add(1_000, "held", session_id="s1")

    code, out, err = run("control", "trail", option, "")

    assert (code, out, why in err) == (2, "", True)


def test_without_a_hubs_key_nothing_is_trusted(
    home: Path,
    run: Run,
    redis_url: str,
    hub: type[HubOfKeys],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not one that stands in Redis either, where anybody with its login may have put it."""
    claude(home, "2.1.330")
    monkeypatch.setenv("ADSUM_REDIS_URL", redis_url)
    with redis.Redis.from_url(redis_url) as client:
        client.hset(streams.COMMAND_KEYS, mapping=new_key())

    code, _, err = run("control", "approve", "--yes")

    assert hub.keys == {}
    assert code == 1
    assert "names no key" in err
    assert not (home / "state" / FILE).exists()


@pytest.mark.parametrize("change", ["second", "changed", "two at first"])
def test_a_changed_or_second_key_takes_a_person_and_yes_does_not_count(
    home: Path, run: Run, hub: type[HubOfKeys], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    claude(home, "2.1.330")
    hub.keys = new_key()
    if change != "two at first":
        assert run("control", "approve", "--yes")[0] == 0
    before = read_consent(home / "state")
    hub.keys = new_key() if change == "changed" else hub.keys | new_key()

    code, _, err = run("control", "full", "--yes")

    assert (code, "adsum control full" in err, "--yes does not count" in err) == (1, True, True)
    assert read_consent(home / "state") == before
    for answer, trusts in (("no", False), ("yes", True)):
        monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
        assert (run("control", "full", "--yes")[0] == 0) == trusts
        assert (read_consent(home / "state").keys == hub.keys) == trusts
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run("control", "approve", "--yes")[0] == 0, "known by now"


@pytest.mark.parametrize("named", [False, True])
def test_the_key_of_another_accounts_program_is_not_trusted(
    home: Path, run: Run, key: str, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """It listens where the hub would. named: the owner has named that address."""
    claude(home, "2.1.330")
    url = os.environ["ADSUM_HUB_URL"]
    if named:
        monkeypatch.setattr("adsum.control.stranger_on", lambda _port: "mallory")
    else:
        monkeypatch.delenv("ADSUM_HUB_URL")
        monkeypatch.setenv("ADSUM_HUB_PORT", url.rpartition(":")[2])

    code, _, err = run("control", "approve", "--yes")

    assert (code != 0, url in err, key in err) == (True, True, False)
    assert ("mallory" if named else "ADSUM_HUB_URL") in err
    assert not (home / "state" / FILE).exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_program_of_unknown_version_is_asked_for_before_its_hooks_change(
    home: Path, run: Run, key: str
) -> None:
    run("hooks", "install")

    code, _, err = run("control", "approve", "--yes")

    assert code == 1
    assert "--program PATH" in err
    assert not (home / "state" / FILE).exists()


def test_off_is_off_whatever_becomes_of_the_hooks(home: Path, run: Run, key: str) -> None:
    program = claude(home, "2.1.330")
    run("hooks", "install")
    run("control", "approve", "--yes")
    program.unlink()

    # nothing is left that says which version the hooks are for
    (home / "state" / "hooks" / "installed-for").rename(home / "kept")

    code, _, err = run("control", "off")

    assert code == 5
    assert err.index("Control is off") < err.index("are still those that wait")
    assert read_consent(home / "state").level == "off"
    (home / "kept").rename(home / "state" / "hooks" / "installed-for")
    assert run("control", "off")[0] == 0
    assert "--hold" not in (home / ".claude" / "settings.json").read_text()


def test_hooks_that_do_not_do_what_was_agreed_are_told(home: Path, run: Run, key: str) -> None:
    claude(home, "2.1.330")
    run("control", "approve", "--yes")
    run("hooks", "install")
    assert "--hold" in hooks_of(home, "PermissionRequest")

    (home / "state" / FILE).unlink()

    code, out, _ = run("hooks", "status")
    assert code == 1
    assert "control is off, and these wait" in out.replace("\n", " ")


def test_the_trail_is_shown_and_what_was_changed_in_it(home: Path, run: Run) -> None:
    assert "Nothing has been decided from elsewhere yet" in run("control", "trail")[2]
    assert "trail      empty\n" in run("control")[1]
    (home / "state").mkdir(mode=0o700, exist_ok=True)
    trail = Trail(home / "state")
    trail.add(1_000, "command", verb="allow", by="ann", outcome="decided", session_id="s" * 36)
    trail.add(2_000, "effect", verb="allow", by="ann", outcome="took_effect", session_id="s" * 36)

    assert "by ann" in run("control", "trail")[1]
    assert "No line matches" in run("control", "trail", "--session", "x")[2]
    assert json.loads(run("control", "trail", "--json")[1].splitlines()[0])["verb"] == "allow"
    assert run("control", "trail", "--verify")[0] == 0
    file = home / "state" / TRAIL
    file.write_bytes(file.read_bytes().replace(b"ann", b"bob"))

    code, _, err = run("control", "trail", "--verify")

    assert code == 1
    assert "was changed" in err


def now_iso() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


RULE = """
[[control.rule]]
name = "tests"
decision = "allow"
tool = "shell"
pattern = "make *"
"""


def write_rules(home: Path, text: str) -> Path:
    file = policy_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_rules_are_listed_and_tried_on_what_was_done(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    file = write_rules(home, RULE)
    lines = home / ".claude" / "projects" / "-work" / f"{SESSION}.jsonl"
    lines.parent.mkdir(parents=True)
    for number, command in enumerate(("make test", "make x; rm y", "ls")):
        given = {"command": command}
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": given}
        told = {"cwd": "/work", "sessionId": SESSION, "timestamp": now_iso()}
        result = {"type": "tool_result", "tool_use_id": f"t{number}"}
        decided = {"source": "user_reject", "decision": "reject"}
        with lines.open("a") as opened:
            opened.write(
                json.dumps({"type": "assistant", **told, "message": {"content": [call]}}) + "\n"
            )
            answer = {"type": "user", "message": {"content": [result]}}
            opened.write(json.dumps({**answer, "permissionDecision": decided}) + "\n")

    code, out, err = run("control", "rules")
    assert (code, "tests" in out, "tried" in out, "pattern=make *" in out) == (0, True, True, True)
    code, out, err = run("control", "rules", "test", "--days", "2", "--json")
    told = json.loads(out)
    assert (code, told["calls"], told["asked"]) == (0, 3, 3), err
    assert told["rules"]["tests"] == {
        "calls": 1,
        "asked": 1,
        "against": 1,
        "examples": ["make test"],
    }
    out = run("control", "rules", "test")[1]
    assert "1 of them a person has denied" in out
    assert "warning: `make` can run other programs or write files by its arguments" in out
    write_rules(home, RULE.replace("allow", "alow"))
    code, _, err = run("control", "rules")
    assert code == 1
    assert f"{file}, [[control.rule]] 1 (tests)" in err.replace("\n", "")


def test_the_trail_is_exported_by_session_and_time(home: Path, run: Run) -> None:
    now = int(time.time() * 1000)
    trail = Trail(home / "state")
    (home / "state").mkdir(exist_ok=True)
    trail.add(now - 3 * 86_400_000, "held", session_id="s1", about="=cmd()")
    trail.add(now, "command", session_id="s2", by="ann", outcome="decided")

    code, out, _ = run("control", "trail", "--csv")
    rows = out.splitlines()
    assert (code, len(rows)) == (0, 3)
    assert rows[0].startswith("n,at,what,")
    assert "'=cmd()" in rows[1]
    assert "s2" not in run("control", "trail", "--json", "--session", "s1")[1]
    assert "s1" not in run("control", "trail", "--since", "1d")[1]
    assert json.loads(run("control", "trail", "--verify", "--json")[1])["lines"] == 2


def test_hooks_wait_no_more_once_control_has_ended_by_itself(
    home: Path, run: Run, key: str
) -> None:
    claude(home, "2.1.330")
    run("hooks", "install", "--transport", "http")
    before = (home / ".claude" / "settings.json").read_bytes()
    run("control", "approve", "--until", "8h", "--yes")
    state = home / "state"
    assert not put_back(state)
    consent = read_consent(state)
    keep_consent(state, msgspec.structs.replace(consent, until=consent.since + 1e-6))

    assert put_back(state)
    assert (home / ".claude" / "settings.json").read_bytes() == before
    assert not put_back(state)
