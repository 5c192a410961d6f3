"""Runs named unit tests with a few functions changed in memory.

To copy the packages, to import them anew and to start pytest takes two seconds of a core a mutant. A
process that has imported everything forks instead, which takes a quarter of one, and gives functions
that are there other code: whoever has imported one runs the changed one. What cannot be shown so (it
is in no function, or its test starts a process) is left for a copy.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import msgspec
import pytest

from tests import forked
from tests.mutants.runner import (
    FOLDERS,
    REPORT,
    ROOT,
    WHOLE_S,
    Edit,
    Mutant,
    Outdated,
    Report,
    edited,
    read_report,
)

#: Some of them fail by waiting.
AT_ONCE = 12
ASKED = "asked.json"
#: Nothing that is only looked through to tell of a failure well: that one happens is what is wanted.
WORDS = (
    *("-q", "--tb=native", "--assert=plain"),
    *("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:unraisableexception"),
    # A task of asyncio may take the exception of the time limit, and then nothing ends the test.
    *("-o", "faulthandler_timeout=60"),
)


@cache
def can_be_swapped(mutant: Mutant) -> bool:
    """Whether only what functions do is changed, and unit tests alone are to notice it."""
    if not all(test.startswith("tests/unit/") for test in mutant.caught_by):
        return False
    try:
        return all(
            edit.file.endswith(".py") and len({*map(_outline, _compiled(edit))}) == 1
            for edit in mutant.edits
        )
    except (Outdated, SyntaxError):
        return False


def run_swapped(mutants: Sequence[Mutant]) -> dict[str, Report]:
    """By name. The report of one that could not be changed so has no results."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with tempfile.TemporaryDirectory() as path:  # a short one: tests have sockets in it
        directory = Path(path)
        (directory / ASKED).write_bytes(msgspec.json.encode(mutants))
        log = directory / "output"
        run = forked.start(__name__, path, env=env, log=log, daemon=False)
        try:
            run.wait(WHOLE_S)
        finally:
            run.kill()
        return {
            mutant.name: read_report(directory / str(number), ROOT)
            for number, mutant in enumerate(mutants)
        }


def main(directory: Path) -> None:
    asked = msgspec.json.decode((directory / ASKED).read_bytes(), type=list[Mutant])
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    for mutant in asked:
        for test in mutant.caught_by:
            importlib.import_module(_module_of(test.partition("::")[0]))
    gc.freeze()  # or each of them copies what it looks through
    running = 0
    for number, mutant in enumerate(asked):
        if running == AT_ONCE:
            os.wait()
            running -= 1
        running += 1
        if os.fork() == 0:
            _run(mutant, directory / str(number))
    for _ in range(running):
        os.wait()


def _run(mutant: Mutant, scratch: Path) -> None:
    """In a process of its own, which it ends."""
    code = 1
    try:
        scratch.mkdir()
        forked.redirect(forked.Streams(scratch / "output", scratch / "output"))
        os.environ[REPORT] = str(scratch / "report.jsonl")
        for edit in mutant.edits:
            swap(edit)
        words = (f"--basetemp={scratch / 'tmp'}", "--timeout=30", "-p", "tests.mutants.recorder")
        if mutant.caught_by:
            code = pytest.main([*WORDS, *words, *mutant.caught_by])
    finally:
        sys.stdout.flush()
        os._exit(code)


def swap(edit: Edit) -> None:
    """Raises AttributeError or TypeError where there is no such function any more."""
    module = importlib.import_module(_module_of(edit.file))
    for (name, before), (_, after) in zip(*map(_functions, _compiled(edit)), strict=True):
        if after == before:
            continue
        function = _function(module, name)
        if function.__code__ != before:
            raise TypeError(f"{module.__name__}.{name} is another function of that name")
        function.__code__ = after


def _module_of(file: str) -> str:
    folder, _, rest = file.partition("/")
    path = rest if folder in FOLDERS else file
    return path.removesuffix(".py").replace("/", ".")


def _compiled(edit: Edit) -> tuple[CodeType, CodeType]:
    """The module before and after."""
    path = ROOT / edit.file
    text = path.read_text()
    before = compile(text, str(path), "exec", dont_inherit=True)
    return before, compile(edited(text, edit), str(path), "exec", dont_inherit=True)


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and bool(code.co_flags & inspect.CO_OPTIMIZED)


def _functions(code: CodeType, prefix: str = "") -> Iterator[tuple[str, CodeType]]:
    """Those of a module and of its classes; what is within one is changed with it."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            name = f"{prefix}{const.co_name}"
            if _is_function(const):
                yield name, const
            else:
                yield from _functions(const, f"{name}.")


def _outline(code: CodeType) -> tuple[Any, ...]:
    """What is done when a module is imported, but for what the functions do that it defines."""
    consts = []
    for const in code.co_consts:
        if not isinstance(const, CodeType):
            consts.append((type(const).__name__, repr(const)))
        elif _is_function(const):
            consts.append(("function", const.co_name))
        else:
            consts.append(("class", _outline(const)))
    return code.co_code, code.co_names, code.co_varnames, tuple(consts)


def _function(module: Any, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", found)  # a property
    found = inspect.unwrap(getattr(found, "__func__", found))
    if not isinstance(found, FunctionType):
        raise TypeError(f"{module.__name__}.{name} is no function")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
