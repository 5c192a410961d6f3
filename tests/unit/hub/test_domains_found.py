"""Finding domains and choosing among them: one that is broken is told, and the hub still starts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from adsum_hub.domains.show import BUILT_IN, DomainChoice, find, read_choice
from adsum_shared.settings import EntryError
from tests.domains import running

EXAMPLE = Path(__file__).parents[2] / "data" / "example_plugin"
GOOD = """
    from adsum_hub.domains import Display, hookimpl
    adsum_domain_api = 1
    @hookimpl
    def interpret(session):
        return Display(label="Fine")
"""

Make = Callable[[str, str], EntryPoint]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """An entry point to a module of this source."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def make(name: str, source: str) -> EntryPoint:
        module = f"plugin_{len(names)}_{tmp_path.name}".replace("-", "_")
        names.append(module)
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        return EntryPoint(name, module, "adsum.domains")

    return make


def test_the_three_are_built_in():
    found = find([])

    assert set(found.domains) == {"sdlc", "creative", "research"} == set(BUILT_IN)
    assert found.faults == ()
    assert found.domains["sdlc"](running("pytest")).label == "Running tests"  # type: ignore[attr-defined]


def test_an_installed_one_joins_them(make):
    found = find([make("fine", GOOD)])

    assert found.domains["fine"](running("x")).label == "Fine"  # type: ignore[attr-defined]
    assert found.faults == ()


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import no_such_module", "ModuleNotFoundError (No module named 'no_such_module')"),
        ("raise ValueError('first\\nsecond')", "its import fails with ValueError (first)"),
        ("import sys; sys.exit(3)", "its import fails with SystemExit"),
        ("def (", "SyntaxError"),
        (GOOD.replace("= 1", "= 2"), "is written for version 2 of the contract"),
        (GOOD.replace("= 1", "= '" + "9" * 500 + "'"), "is written for version '999"),
        (GOOD.replace("adsum_domain_api", "other"), "names no version of the contract"),
        (GOOD.replace("@hookimpl", ""), "no function interpret marked with hookimpl"),
        (GOOD.replace("(session)", "(view)"), "takes other arguments than session"),
        (GOOD.replace("interpret", "explain"), "it has no function interpret"),
    ],
    ids=[
        *("not there", "raises", "exits", "no Python", "newer", "hostile version", "no version"),
        *("not marked", "wrong arguments", "wrong name"),
    ],
)
def test_one_that_cannot_be_used_is_told_with_its_cause_and_the_others_work(make, source, cause):
    found = find([make("bad", source), make("fine", GOOD)])

    assert set(found.domains) == {*BUILT_IN, "fine"}
    assert found.broken == {"bad"}
    (fault,) = found.faults
    assert cause in fault
    assert fault.startswith("Domain bad of an unnamed package cannot be used")
    assert "restart the hub" in fault
    assert len(fault) < 500
    assert "\n" not in fault


def test_one_whose_attributes_raise_is_told(make):
    source = GOOD + (
        "\n    class Trap:\n"
        "        adsum_domain_api = 1\n"
        "        def __dir__(self):\n"
        "            raise OSError\n"
        "    trap = Trap()\n"
    )
    point = make("bad", source)

    found = find([EntryPoint("bad", f"{point.value}:trap", "adsum.domains")])

    assert found.broken == {"bad"}
    assert "OSError" in found.faults[0]


def test_a_name_that_is_taken_stays_with_whoever_has_it(make):
    theirs = GOOD.replace("Fine", "Theirs")

    found = find([make("sdlc", theirs), make("twice", GOOD), make("twice", theirs)])

    assert found.domains["sdlc"](running("pytest")).label == "Running tests"  # type: ignore[attr-defined]
    assert found.domains["twice"](running("x")).label == "Fine"  # type: ignore[attr-defined]
    assert len(found.faults) == 2
    assert "Domain sdlc of an unnamed package is already brought by Adsum" in found.faults[0]
    assert found.broken == frozenset()


@pytest.mark.slow
def test_the_example_is_installed_and_found(tmp_path):
    """As a user would, but for the network: the build's needs are there."""
    source, target = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for file in EXAMPLE.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    away = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    run = subprocess.run(
        [*pip, *away, str(source)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PIP_CONFIG_FILE": os.devnull},
    )
    assert run.returncode == 0, run.stderr
    points = [
        point
        for each in distributions(path=[str(target)])
        for point in each.entry_points
        if point.group == "adsum.domains"
    ]
    assert [(point.name, point.value) for point in points] == [("kitchen", "adsum_example_kitchen")]

    code = (
        "from adsum_hub.domains.show import find; from tests.domains import running;"
        "found = find(); print(found.domains['kitchen'](running('soup.recipe')), found.faults)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(target)},
    )

    assert "label='Cooking'" in seen.stdout, seen.stderr
    assert seen.stdout.rstrip().endswith("()")


# The choice per project.

KNOWN = ("sdlc", "creative", "research")


def choose(*entries: object) -> DomainChoice:
    return read_choice(entries, KNOWN)


def test_by_default_sdlc_speaks_everywhere():
    assert choose().names("shop", "/src/shop") == ("sdlc",)
    assert choose().names(None, None) == ("sdlc",)


def test_the_first_entry_that_matches_decides_and_where_none_does_sdlc():
    choice = choose(
        {"project": "blog-*", "use": ["creative", "sdlc", "creative"]},
        {"project": "blog-old", "use": ["research"]},
        {"project": "secret", "use": []},
    )

    assert choice.names("blog-old", None) == ("creative", "sdlc")
    assert choice.names("secret", None) == ()
    assert choice.names("shop", None) == ("sdlc",)
    assert choice.names("Blog-old", None) == ("sdlc",)


def test_a_glob_with_a_slash_is_held_against_the_directory():
    choice = choose({"project": "*/papers/*", "use": ["research"]})

    assert choice.names("tides", "/home/me/papers/tides") == ("research",)
    assert choice.names("papers", "/home/me/papers") == ("sdlc",)


def test_one_that_matches_all_matches_a_session_without_a_project():
    assert choose({"project": "*", "use": ["research"]}).names(None, None) == ("research",)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("sdlc", "Expected `object`, got `str`"),
        ({"use": ["sdlc"]}, "there is no `project`"),
        ({"project": "", "use": ["sdlc"]}, "of length >= 1 - at `project`"),
        ({"project": 7, "use": ["sdlc"]}, "got `int` - at `project`"),
        ({"project": "a"}, "there is no `use`"),
        ({"project": "a", "use": "sdlc"}, "got `str` - at `use`"),
        ({"project": "a", "use": [1]}, "got `int` - at `use[0]`"),
        ({"project": "a", "use": ["sdlk"]}, "no domain is called 'sdlk'"),
        ({"project": "a", "use": [], "icon": 1}, "unknown field `icon`"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_cause_and_next_step(entry, told):
    with pytest.raises(EntryError) as error:
        choose({"project": "fine", "use": ["sdlc"]}, entry)

    said = str(error.value)
    assert said.startswith("[[domains]] 2: ")
    assert told in said
    assert said.count(".") >= 2  # and what to do
