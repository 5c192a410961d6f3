"""No secret leaves a machine, and what is no secret stays readable."""

from __future__ import annotations

import time

import pytest

from adsum_shared.privacy import private_as
from adsum_shared.redact import redact_text
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


@pytest.mark.parametrize("text", ["run --api-key abc123def", "--my-token-name 'abc123def'"])
def test_a_secret_behind_an_option_is_masked(text: str) -> None:
    assert "abc123def" not in redact_text(text, "salt")
