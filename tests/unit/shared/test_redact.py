"""No secret leaves a machine, and what is no secret stays readable."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adsum_shared.privacy import private_as
from adsum_shared.redact import fields_without_secrets, redact_text, redacted
from adsum_shared.signals import (
    Alive,
    BackgroundTask,
    MetaChanged,
    PromptSubmitted,
    RequestOpened,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnFailed,
)

DATA = Path(__file__).parents[2] / "data"
EVERYDAY = (DATA / "redaction" / "everyday.txt").read_text().splitlines()
PASSWORD = "Pl4ntedS3cret"
DIGEST = "4f1a9c3e5b7d8f0a2c4e6b8d0f1a3c5e7b9d1f3a5c7e9b0d2f4a6c8e0b1d3f5a"
TAIL = "abcdefghij0123456789klmnop"
#: A command -> what of it nobody else may read.
PLANTED = {
    f"aws configure set aws_secret_access_key {PASSWORD}": PASSWORD,
    f"npm config set //registry.example/:_authToken {PASSWORD}": PASSWORD,
    f"az login --service-principal -u app -p {PASSWORD} --tenant t": PASSWORD,
    f"docker login -u me -p '{PASSWORD}' ghcr.io": PASSWORD,
    f"curl -u admin:{PASSWORD} https://shop.example": PASSWORD,
    f"curl -sSu 'admin:two words {PASSWORD}' https://shop.example": PASSWORD,
    f"curl -d '{{1; 2 | 3}}' \\\n  --user=admin:{PASSWORD} https://shop.example": PASSWORD,
    f"curl -b 'theme=dark; session={PASSWORD}' https://shop.example": PASSWORD,
    f"curl -H 'Cookie: theme=dark; session={PASSWORD}' https://shop.example": PASSWORD,
    f"curl 'https://b.example/k?X-Amz-Date=1&X-Amz-Signature={DIGEST}'": DIGEST,
    f"curl 'https://b.example/k?sv=2026&sig={PASSWORD}%3D{PASSWORD}'": PASSWORD,
    f"mysql -u root -p{PASSWORD} shop": PASSWORD,
    f"mariadb-dump -p'{PASSWORD}' shop > shop.sql": PASSWORD,
    f"MYSQL_PWD={PASSWORD} mysql shop": PASSWORD,
    f"mongodump -u me -p {PASSWORD}": PASSWORD,
    f"redis-cli -a {PASSWORD} info": PASSWORD,
    f"sshpass -p {PASSWORD} ssh -p 22 shop.example": PASSWORD,
    f"SIGNING_KEY={DIGEST} node server.js": DIGEST,
    f"openssl enc -K x --key {DIGEST} -in a": DIGEST,
    f"twilio api -u SK{DIGEST[:32]}": DIGEST[:32],
    f"doctl auth init -t dop_v1_{DIGEST}": DIGEST,
    f"curl -d text=x https://hooks.slack.com/services/T0123456/B0123456/{TAIL}": TAIL,
    f"export SENDGRID=SG.{TAIL[:22]}.{TAIL}": TAIL,
    f"vault login hvs.{TAIL}": TAIL,
    f"adsum join https://hub.example adsum_{TAIL}{TAIL}": TAIL,
}

SECRETS = {
    "anthropic": "sk-ant-api03-AbCdEf0123456789-xyz",
    "openai": "sk-proj-AbCdEf0123456789AbCdEf",
    "github": "ghp_AbCdEf0123456789AbCdEf0123456789AbCd",
    "github fine": "github_pat_11ABCDEFG0123456789_abcdefghijkl",
    "gitlab": "glpat-AbCdEf0123456789AbCd",
    "slack": "xoxb-1234567890-abcdefghij",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "google": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "npm": "npm_AbCdEf0123456789AbCdEf0123456789AbCd",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
    "stripe": "sk_live_AbCdEf0123456789",
}


@pytest.mark.parametrize("text", PLANTED)
def test_a_planted_secret_is_masked(text: str) -> None:
    masked = redact_text(text, "salt")

    assert PLANTED[text] not in masked
    assert masked.startswith(text.split(maxsplit=1)[0].partition("=")[0])
    assert redact_text(masked, "salt") == masked, "masking twice changes nothing"
    assert PLANTED[text] not in repr(fields_without_secrets({"event": text}, "salt")), "in a log"


@pytest.mark.parametrize("text", EVERYDAY)
def test_an_everyday_command_stays(text: str) -> None:
    assert redact_text(text, "salt") == text


def test_recorded_tool_inputs_stay() -> None:
    inputs = [each for file in sorted(DATA.rglob("*.jsonl")) for each in _tool_inputs(file)]

    assert len(inputs) > 100
    assert not [each for each in inputs if redacted(each, "salt") != each]


def _tool_inputs(file: Path) -> Iterator[Any]:
    def inside(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in {"tool_input", "input", "arguments"}:
                    yield inner
                yield from inside(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from inside(inner)

    for line in file.read_text().splitlines():
        with contextlib.suppress(ValueError):  # a line cut off on purpose
            yield from inside(json.loads(line))


@pytest.mark.parametrize("name", ["sha256:", "checksum=", "cache-key: ", "digest ", "git show "])
def test_a_digest_stays(name: str) -> None:
    assert redact_text(f"{name}{DIGEST}", "salt") == f"{name}{DIGEST}"


@pytest.mark.parametrize("start", ["$x", "$(9", "<", "[", "`", "{", "${x:-", "x(", "?", "null"])
def test_a_password_that_begins_like_code_is_masked(start: str) -> None:
    for form in ("PASSWORD={}", "password: '{}'", "run --password {}", "mysql -p'{}'"):
        assert PASSWORD not in redact_text(form.format(start + PASSWORD), "salt")


def test_without_a_salt_a_secret_has_no_mark() -> None:
    assert redact_text(f"PASSWORD={PASSWORD}", "") == "PASSWORD=[redacted:value]"


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_known_by_its_prefix(secret: str) -> None:
    text = redact_text(f"use {secret} here", "salt")

    assert secret[8:] not in text
    assert text.startswith("use [redacted:")
    assert text.endswith("] here")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export DB_PASSWORD=hunter22", "hunter22"),
        ('{"api_key": "abc123def"}', "abc123def"),
        ("mysql --password s3cret -u me", "s3cret"),
        ("curl -H 'Authorization: Bearer abcdef123456'", "abcdef123456"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("git clone https://me:tok3n@example.com/x", "tok3n"),
        ("redis://:s3cr3t@host:6379/0", "s3cr3t"),
        ("CLIENT_SECRET: 'very-secret-value'", "very-secret-value"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalrXUtnFEMI"),
    ],
)
def test_a_secret_is_known_by_its_name(text: str, secret: str) -> None:
    assert secret not in redact_text(text, "salt")


def test_a_private_key_goes_whole_even_without_its_end() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nZXktdjEA"

    assert "b3Blb" not in redact_text(f"cat: {key}", "salt")


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests in tests/auth",
        "Fix basic authentication for bearer handling",
        "Count tokens per model",
        "https://example.com/a/b?x=1",
        "Improve token handling in file2.py",
        "git push origin feature/secrets",
        "pass the key to the function",
        "ls -la",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text, "salt") == text


def test_equal_secrets_bear_equal_marks_on_one_machine_only() -> None:
    one, other = (redact_text(f"TOKEN={value}", "salt") for value in ("aaaa1111", "bbbb2222"))

    assert one == redact_text("TOKEN=aaaa1111", "salt")
    assert one != other
    assert one != redact_text("TOKEN=aaaa1111", "another salt")


def test_marking_twice_changes_nothing() -> None:
    once = redact_text("password=hunter22 token: abcd1234 ghp_" + "a" * 36, "salt")

    assert redact_text(once, "salt") == once


def test_every_text_of_a_signal_is_masked_and_its_names_are_not() -> None:
    secret = SECRETS["github"]
    private = private_as("redacted", "salt")
    signals = [
        PromptSubmitted(session_id=secret, at=1, seen=1, text=secret),
        ToolStarted(session_id="s", at=1, seen=1, tool="Bash", tool_use_id="t", summary=secret),
        ToolFinished(session_id="s", at=1, seen=1, tool="Bash", tool_use_id="t", error=secret),
        TurnEnded(
            session_id="s",
            at=1,
            seen=1,
            last_message=secret,
            background=[BackgroundTask(id="b", description=secret)],
        ),
        MetaChanged(session_id="s", at=1, seen=1, title=secret, cwd=f"/x/{secret}"),
        RequestOpened(
            session_id="s",
            at=1,
            seen=1,
            request_kind="permission",
            payload={"env": {"PASSWORD": "hunter2"}, "args": [secret, 3]},
            suggestions=[{"rule": secret}],
        ),
    ]

    kept = [private(signal) for signal in signals]

    assert kept[0].session_id == secret
    texts = repr([repr(signal) for signal in kept]).replace(repr(kept[0].session_id), "")
    assert secret not in texts
    assert "hunter2" not in texts
    assert repr(kept[5]).count("redacted") == 3


def test_a_signal_without_secrets_is_the_same_object() -> None:
    signal = ToolStarted(session_id="s", at=1, seen=1, tool="Bash", tool_use_id="t", summary="ls")

    assert private_as("redacted", "salt")(signal) is signal


def test_metadata_leaves_states_and_counts_and_no_text() -> None:
    private = private_as("metadata", "salt")
    finished = ToolFinished(session_id="s", at=1, seen=1, tool="Bash", tool_use_id="t", error="E")
    opened = RequestOpened(
        session_id="s", at=1, seen=1, request_kind="plan", summary="S", payload={"plan": "P"}
    )
    ended = TurnEnded(
        session_id="s",
        at=1,
        seen=1,
        last_message="M",
        background=[BackgroundTask(id="b", description="D")],
    )
    failed = TurnFailed(session_id="s", at=1, seen=1, error="rate_limit", message="M")

    assert private(finished).error is None
    assert (private(opened).summary, private(opened).payload) == (None, None)
    assert private(opened).request_kind == "plan"
    assert private(ended).last_message is None
    assert private(ended).background == [BackgroundTask(id="b")]
    assert (private(failed).error, private(failed).message) == ("rate_limit", None)


def test_full_changes_nothing() -> None:
    signal = Alive(session_id="s", at=1, seen=1, note="password=hunter22")

    assert private_as("full", "salt")(signal) is signal


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "://" * 50_000,
        "token" * 40_000,
        "-" * 200_000,
        "--token-" * 20_000,
        "eyJ-" * 50_000,
        "a." * 90_000 + "://x:",
        "mysql-" * 30_000,
        "curl '" * 30_001,
        'curl "\\' * 30_000,
        "curl -b a=" * 20_000,
        "configure set token" * 10_000,
        "secret_token_" * 15_000,
        "xai-" * 50_000,
        "token=${" * 25_000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    redact_text(text, "salt")

    assert time.process_time() - started < 1.0


def test_a_run_of_hyphens_takes_time_in_proportion_to_its_length() -> None:
    def seconds(length: int) -> float:
        text = "secret" + "-" * length
        return min(_seconds_of(text) for _ in range(3))

    # the constant stays small too: each hyphen used to cost up to 40 steps at each of 40 places
    assert seconds(100_000) < 30 * seconds(10_000)
    assert seconds(100_000) < 20 * min(_seconds_of("secret" + " -" * 50_000) for _ in range(3))


def _seconds_of(text: str) -> float:
    started = time.process_time()
    redact_text(text, "salt")
    return time.process_time() - started


@pytest.mark.parametrize("text", ["run --api-key abc123def", "--my-token-value 'abc123def'"])
def test_a_secret_behind_an_option_is_masked(text: str) -> None:
    assert "abc123def" not in redact_text(text, "salt")
