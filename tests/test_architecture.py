"""The structure of the project: sizes, imports, keys, addresses, locks. Part of `make check`.

Each test loops over all files and reports every violation at once.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from adsum_collector.agents.claude_code.tools import ROLES
from tests.mutants.runner import mutated
from tests.mutants.test_mutants import MUTANTS

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "adsum": ROOT / "cli" / "adsum",
    "adsum_collector": ROOT / "collector" / "adsum_collector",
    "adsum_hub": ROOT / "hub" / "adsum_hub",
    "adsum_shared": ROOT / "shared" / "adsum_shared",
}
SOURCES = sorted(path for package in PACKAGES.values() for path in package.rglob("*.py"))
#: By the name that Python imports each by.
TREES = {
    ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    ): ast.parse(path.read_text())
    for package in PACKAGES.values()
    for path in sorted(package.rglob("*.py"))
}
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LOCKS = sorted(ROOT.glob("requirements*.lock"))
#: The most lines that a package may have. Lower a budget with each change; raise one only with the
#: reason in the commit's body.
LINE_BUDGETS = {
    "adsum": 13560,
    "adsum_collector": 24190,
    "adsum_hub": 20430,
    "adsum_shared": 5160,
    "page": 17030,
}
WEB = PACKAGES["adsum_hub"] / "web"
#: The page's own files, without what is vendored.
PAGE = sorted(
    path
    for path in WEB.rglob("*")
    if path.suffix in (".js", ".css") and "vendor" not in path.relative_to(WEB).parts
)
SCRIPTS = {path.relative_to(WEB).as_posix(): path for path in PAGE if path.suffix == ".js"}
MOST_WORDS = 30
LONGEST_LINE = 120
#: What makes a module of the page a view: it draws.
DRAWING = {"ui/html.js", "vendor/preact.js", "vendor/preact-hooks.js"}
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


def test_the_hub_and_its_page_name_roles_of_tools_and_no_tool() -> None:
    """Allow a tool's name as display text, for example after `words:` in a script."""
    quoted = re.compile(
        rf"""(?<!words: )(?<!name: )(?<!groupedBy: )(?<!agent: )["'`]({"|".join(ROLES)})["'`]"""
    )
    hub = [path for path in [*SOURCES, *SCRIPTS.values()] if WEB.parent in path.parents]

    assert not {_name(p): names for p in hub if (names := quoted.findall(p.read_text()))}


def test_the_packages_hold_modules() -> None:
    assert all((package / "__init__.py").exists() for package in PACKAGES.values())
    assert len(SOURCES) > 20


def test_a_package_stays_within_its_line_budget() -> None:
    lines = {
        name: sum(p.read_text().count("\n") for p in SOURCES if p.is_relative_to(package))
        for name, package in PACKAGES.items()
    } | {"page": sum(path.read_text().count("\n") for path in PAGE)}

    assert not {
        name: f"{count} lines, the budget is {LINE_BUDGETS[name]}"
        for name, count in lines.items()
        if count > LINE_BUDGETS[name]
    }


def test_a_module_starts_with_a_docstring() -> None:
    assert not [_name(path) for path in SOURCES if not path.read_text().startswith('"""')]


def test_a_class_name_has_one_meaning_in_the_whole_product() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)

    assert not {name: sorted(found) for name, found in homes.items() if len(found) > 1}


def test_the_glossary_has_our_own_ideas_alone() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()

    assert sum(line.startswith("|") for line in lines) - 2 <= MOST_WORDS


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


def test_a_lock_pins_by_hash_and_names_no_index() -> None:
    for lock in LOCKS:
        text = lock.read_text()
        pinned = re.findall(r"^[a-z0-9][\w.-]*==\S+", text, re.MULTILINE)
        hashed = re.findall(r"^[a-z0-9].*\\\n    --hash=sha256:", text, re.MULTILINE)

        assert pinned, lock.name
        assert len(hashed) == len(pinned), lock.name
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


#: The ways out of the command line, which make text safe to show; a backup is bytes, for a file.
WAYS_OUT = {
    "cli/adsum/outcome.py",
    "cli/adsum/text/tables.py",
}
_WRITES = re.compile(
    r"(?<![\w.])print\(|\b(?:typer|click)\.s?echo\(|\bstd(?:out|err)\.(?:write|writelines)\("
    r"|\bstd(?:out|err)\.buffer|(?<!Safe)\bConsole\(|os\.write\([12],"
)


def test_nothing_leaves_the_command_line_around_what_makes_it_safe_to_show() -> None:
    found = {
        _name(path): _WRITES.findall(path.read_text())
        for path in SOURCES
        if path.is_relative_to(PACKAGES["adsum"]) and _name(path) not in WAYS_OUT
    }

    assert {name: calls for name, calls in found.items() if calls} == {
        "cli/adsum/__main__.py": ["print("],  # the version alone, before anything is imported
        "cli/adsum/broker.py": ["stdout.buffer", "stdout.buffer"],
    }


def test_a_line_of_the_page_fits_a_screen() -> None:
    assert not [
        f"{_name(path)}:{number}"
        for path in PAGE
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]


def _imports_of_the_page() -> dict[str, set[str]]:
    """Static, dynamic and of types alone, by module."""
    target = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
    return {
        name: {
            (path.parent / found).resolve().relative_to(WEB).as_posix()
            for found in target.findall(path.read_text())
        }
        for name, path in SCRIPTS.items()
    }


def test_no_modules_of_the_page_import_one_another_in_a_circle() -> None:
    waiting = {name: targets & SCRIPTS.keys() for name, targets in _imports_of_the_page().items()}
    while leaves := {name for name, targets in waiting.items() if not targets}:
        waiting = {n: targets - leaves for n, targets in waiting.items() if n not in leaves}

    assert not waiting


def test_state_of_the_page_imports_no_view() -> None:
    imports = _imports_of_the_page()
    views = {name for name, targets in imports.items() if targets & DRAWING} | {"ui/html.js"}

    assert len(views) > 20
    assert not {
        f"{name} -> {target}"
        for name, targets in imports.items()
        if name not in views
        for target in targets & views
    }


def test_the_addresses_of_the_views_stand_in_one_module() -> None:
    paths = re.findall(r'path: "(/[^"]+)"', SCRIPTS["core/routes.js"].read_text())
    spelled = re.compile(rf"[\"'`](?:{'|'.join(map(re.escape, paths))})(?![\w.-])")

    assert len(paths) > 5
    assert [n for n, path in SCRIPTS.items() if spelled.search(path.read_text())] == [
        "core/routes.js"
    ]


def test_each_mutant_fits_the_source() -> None:
    for edit in (edit for mutant in MUTANTS for edit in mutant.edits):
        mutated((ROOT / edit.file).read_text(), edit)
