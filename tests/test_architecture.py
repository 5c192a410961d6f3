"""The shape of the project itself: lengths, words, keys, addresses, locks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "adsum": ROOT / "cli" / "adsum",
    "adsum_collector": ROOT / "collector" / "adsum_collector",
    "adsum_hub": ROOT / "hub" / "adsum_hub",
    "adsum_shared": ROOT / "shared" / "adsum_shared",
}
SOURCES = sorted(path for package in PACKAGES.values() for path in package.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LOCKS = sorted(ROOT.glob("requirements*.lock"))
MOST_LINES = 250
#: a test module is a list of facts: it is looked up in, not read through
MOST_TEST_LINES = 600
#: longer for a reason that stands here
LONG = {
    "shared/adsum_shared/signals.py": "one vocabulary, one file: a struct per kind and no logic",
}
BANNED = re.compile(
    r"(Manager|Handler|Service|Helper|Utils?|Processor|Controller|Orchestrator|Wrapper)s?$"
    r"|^_*(process(?!_seen|_gone)|handle|do)_|_v2$|^_*new_"
)
SKIPPED_FOLDERS = {
    ".git", ".venv", ".rig", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    ".import_linter_cache", "node_modules", "__pycache__", "dist", "build", "site",
}  # fmt: skip


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _project_files() -> Iterator[Path]:
    """Every text file of the checkout that git could carry."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if (
            SKIPPED_FOLDERS.isdisjoint(parts)
            and path.is_file()
            and not parts[0].startswith(".coverage")
            and b"\0" not in path.read_bytes()[:8192]
        ):
            yield path


def test_the_packages_hold_modules() -> None:
    assert all((package / "__init__.py").exists() for package in PACKAGES.values())
    assert len(SOURCES) > 20


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=_name)
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    lines = path.read_text().count("\n")
    most = MOST_TEST_LINES if path in TESTS else MOST_LINES

    if _name(path) not in LONG:
        assert lines <= most, f"{lines} lines; split it by what its parts are for"


def test_no_exception_for_length_has_outlived_its_module() -> None:
    assert not [name for name in LONG if (ROOT / name).read_text().count("\n") <= MOST_LINES]


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_names_are_words_of_the_glossary(path: Path) -> None:
    names = re.findall(r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)", path.read_text(), re.MULTILINE)

    assert not [name for name in [path.stem, *names] if BANNED.search(name)]


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_says_in_its_first_line_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith('"""')


def test_tests_use_fakes_not_mocks() -> None:
    word = re.compile(r"unittest.mock|pytest_mock|MagicMock|\bmocker\b")

    users = [_name(p) for p in TESTS if p != Path(__file__) and word.search(p.read_text())]

    assert not users


def test_what_a_checker_is_told_to_overlook_has_its_reason_beside_it() -> None:
    told = re.compile(r"# (?:noqa|type: ignore)\b(?!: [A-Z0-9, ]+ - \w|\[[a-z,-]+\]\s*# \w)")
    bare = [
        f"{_name(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if told.search(line)
    ]
    assert not bare


def test_redis_keys_are_spelled_in_one_module_only() -> None:
    key = re.compile(r"adsum:[\w{%]")
    spellers = [_name(p) for p in SOURCES if key.search(p.read_text())]

    assert spellers == ["shared/adsum_shared/streams.py"]


@pytest.mark.parametrize("lock", LOCKS, ids=_name)
def test_a_lock_pins_by_hash_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    pinned = re.findall(r"^[a-z0-9][\w.-]*==\S+", text, re.MULTILINE)

    assert pinned
    assert len(re.findall(r"^[a-z0-9].*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(pinned)
    assert not re.search(r"://|--(extra-)?index|--find-links|^-[ef]", text, re.MULTILINE)


def test_what_is_run_is_what_was_tested() -> None:
    pins = {
        lock.name: set(re.findall(r"^([a-z0-9][\w.-]*==\S+)", lock.read_text(), re.MULTILINE))
        for lock in LOCKS
    }
    tested = pins.pop("requirements-dev.lock")
    # Builds the documents' site, in an environment of its own.
    del pins["requirements-docs.lock"]

    assert set(pins) == {"requirements.lock", "requirements-build.lock"}
    assert all(used <= tested for used in pins.values())


def test_no_file_names_a_machine_or_a_registry() -> None:
    # In pieces, so that this file does not find itself.
    addresses = re.compile(
        "|".join(
            [
                r"(?<![\w.~-])/wo" + r"rk/",
                "/opt/pyp" + "i",
                "/opt/whe" + "els",
                r"\.pyen" + "v/",
                r"/ro" + r"ot/",
                "pyp" + r"i\.org",
                "pythonhos" + "ted",
                "npm" + r"js\.(org|com)",
                "deb" + r"ian\.org/debian",
            ]
        )
    )
    naming = {
        f"{_name(path)}: {found[0]}"
        for path in _project_files()
        if (found := addresses.search(path.read_text(errors="replace")))
    }

    assert not naming
