"""Which ids are one model, and which only look like it."""

from __future__ import annotations

import time

import pytest

from adsum_shared.prices import Names, names_of


def read(model: str) -> tuple[str, bool, bool]:
    names = names_of(model)
    assert names is not None
    return names.bare, names.regional, names.million


@pytest.mark.parametrize(
    ("model", "bare"),
    [
        ("claude-opus-5-5", "claude-opus-5-5"),
        (" Claude-Opus-5-5 ", "claude-opus-5-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("claude-opus-5-2026-07-24", "claude-opus-5"),
        ("claude-opus-5@default", "claude-opus-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("claude-opus-4-5-thinking", "claude-opus-4-5"),
        ("claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic/claude-opus-5.5", "claude-opus-5-5"),
        ("openrouter/anthropic/claude-opus-5.5", "claude-opus-5-5"),
        ("vertex_ai/claude-opus-5", "claude-opus-5"),
        ("bedrock/global.anthropic.claude-opus-5", "claude-opus-5"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3-5-sonnet"),
    ],
)
def test_one_model_in_many_spellings(model: str, bare: str) -> None:
    assert read(model) == (bare, False, False)


@pytest.mark.parametrize("region", ["us", "eu", "apac", "au", "jp", "ca", "in"])
def test_a_region_is_known_by_its_prefix(region: str) -> None:
    model = f"{region}.anthropic.claude-haiku-4-5-20251001-v1:0"

    assert read(model) == ("claude-haiku-4-5", True, False)


def test_bedrock_without_a_prefix_is_one_region() -> None:
    assert read("anthropic.claude-opus-5-5") == ("claude-opus-5-5", True, False)


def test_an_inference_profile_is_named_at_its_address_s_end() -> None:
    address = "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-6"

    assert read(address) == ("claude-sonnet-4-6", True, False)


def test_a_million_tokens_of_context_are_no_other_model() -> None:
    assert read("claude-sonnet-4-5-20250929[1m]") == ("claude-sonnet-4-5", False, True)
    assert read("us.anthropic.claude-opus-4-6-v1[1m]") == ("claude-opus-4-6", True, True)


@pytest.mark.parametrize(
    "model",
    ["claude-opus-5-fast", "claude-opus-5-mini", "claude-opus-6", "claude-opus-5-5-eap",
     "us-gov.anthropic.claude-opus-5", "deepinfra/anthropic/claude-opus-5",
     "kimi-k2-thinking", "deepseek-v3", "gpt-5.1", "openai/gpt-6-2026-01-01"],
)  # fmt: skip
def test_other_models_keep_their_name(model: str) -> None:
    assert names_of(model) == Names(model, model)


@pytest.mark.parametrize("model", ["", "  ", "<synthetic>", "x" * 301])
def test_what_is_no_model(model: str) -> None:
    assert names_of(model) is None


def test_no_id_takes_long_to_read() -> None:
    started = time.process_time()
    for odd in ("arn:/" * 60, "claude-" + "-latest" * 40 + "x", "claude-" + "1." * 140):
        assert names_of(odd) is not None

    assert time.process_time() - started < 0.5
