"""What the documents promise: links that lead somewhere, a site without lost pages, messages, commands and roles as they are."""

from __future__ import annotations

import ast
import re
import shlex
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml
from typer.main import get_command

from adsum.app import app
from adsum.config import VARIABLES
from adsum_hub.auth.gate import needed_for
from adsum_hub.live.broadcast import Broadcast
from adsum_hub.observed import Measures
from adsum_hub.roster import Changes
from adsum_shared.settings import KNOWN
from adsum_shared.state import HubTrouble, WitnessName
from scripts import schemas
from scripts.docs_site import FROM_ROOT, for_site

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in FROM_ROOT] + sorted(DOCS.rglob("*.md"))
PACKAGES = ("cli/adsum", "collector/adsum_collector", "hub/adsum_hub", "shared/adsum_shared")
ADSUM: Any = get_command(app)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?P<ticks>`+)(?P<code>.+?)(?P=ticks)")
#: Read by the compose files, the image or the scripts of deploy/, by tests, or by the web server.
OTHER_VARIABLES = {
    *re.findall(r"\bADSUM_[A-Z_]+", (ROOT / ".env.example").read_text()),
    "ADSUM_EXAMPLES",
    "ADSUM_GRAFANA_PASSWORD",
    "ADSUM_METRICS_RETENTION",
}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def _anchors(page: Path) -> tuple[set[str], set[str]]:
    """Of its headings: as a forge makes them, and as the site does."""
    heads = re.findall(r"^#{1,6} (.+)$", _prose(page), re.MULTILINE)
    plain = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", head) for head in heads]
    forge = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in plain}
    ascii_ = [unicodedata.normalize("NFKD", h).encode("ascii", "ignore").decode() for h in plain]
    site = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in ascii_}
    return forge, site


def _links(page: Path) -> list[str]:
    bare = SPAN.sub("`code`", _prose(page))
    return re.findall(r"\]\((?!\w+:)([^)\s]+)\)", bare)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_within_the_checkout_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{_name(page)}: {link}"
        if anchor:
            forge, site = _anchors(target)
            assert anchor in forge & site, f"{_name(page)}: no heading for {link}"


def test_the_site_has_every_page_once() -> None:
    def leaves(entries: Any) -> Iterator[str]:
        for entry in entries:
            (inner,) = entry.values()
            yield from [inner] if isinstance(inner, str) else leaves(inner)

    listed = list(leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    there = [each.relative_to(DOCS).as_posix() for each in DOCS.rglob("*.md")]

    assert sorted(listed) == sorted([*there, *FROM_ROOT.values()]), "see nav in mkdocs.yml"


def test_links_of_the_site_stay_on_it_or_lead_to_the_forge() -> None:
    text = "[a](../SECURITY.md#x) [b](deploy.md) [c](../bench/score.py) [d](#here) `[e](../f)` [`g`](../Makefile)"

    assert for_site(text, "docs/design.md") == (
        "[a](security-policy.md#x) [b](deploy.md) c [d](#here) `[e](../f)` `g`"
    )
    assert "[c](https://forge/us/blob/HEAD/bench/score.py)" in for_site(
        text, "docs/design.md", "https://forge/us"
    )
    assert for_site('[a](docs/usage.md#b) <img src="docs/img/desk.png">', "README.md") == (
        '[a](usage.md#b) <img src="img/desk.png">'
    )


@cache
def _said() -> str:
    """All literals of the source, one a line; `…` stands where a value is put in."""
    found = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
                    found.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    found += [path.read_text("utf-8") for path in (ROOT / "hub/adsum_hub/web").rglob("*.js")]
    return "\n".join(" ".join(each.split()) for each in found)


def _quoted() -> list[str]:
    rows = re.findall(
        r"^\| (.+?) \| .+ \| .+ \|$", _prose(DOCS / "troubleshooting.md"), re.MULTILINE
    )
    spans = [span["code"].strip() for row in rows for span in SPAN.finditer(row)]
    return [each for each in spans if " " in each]


def test_every_message_that_is_explained_is_still_said() -> None:
    quoted = _quoted()

    assert len(quoted) > 50
    assert not [each for each in quoted if " ".join(each.split()) not in _said()]


def test_whatever_the_doctor_finds_has_a_heading_that_it_can_name() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "cli/adsum/doctor").glob("*.py"))
    named = re.findall(
        r'\b(?:Finding|from_text|ok|warn|fail|skip)\(\s*f?"([a-z{][a-z.{}-]*)"', source
    )
    headings = set(re.findall(r"^#+ (\S+)$", _prose(DOCS / "doctor.md"), re.MULTILINE))
    witnesses = {f"witness-{name}" for name in (*get_args(WitnessName), "usage")}

    assert len(named) > 20
    assert not {each for each in named if "{" not in each} - headings
    assert witnesses <= headings


def _commands(page: Path) -> Iterator[str]:
    """Lines of code blocks, and spans, that begin with `adsum` or `$ adsum`; without comments."""
    text = page.read_text("utf-8")
    lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
    spans = [span["code"] for span in SPAN.finditer(_prose(page))]
    for each in lines + spans:
        found = re.match(r"(?:\$ |sudo |docker compose exec (?:-T )?hub )?(adsum [a-z][^#]*)", each)
        if found:
            yield re.split(r"\s{2,}|[|;&>…(){}]|: ", found[1])[0].strip()


def _misused(line: str) -> str | None:
    """What of a command line does not exist. Words in capitals, and what follows them, are values."""
    command = ADSUM
    words = shlex.split(line.replace("'", '"'))[1:]
    while words and getattr(command, "commands", None) and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if getattr(command, "commands", None) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return f"no command {words[0]}"
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word.split("=")[0] not in known]
    unknown = [word for word in unknown if word not in {"-", "--help", "--version"}]
    return f"no option {unknown[0]}" if unknown else None


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=_name)
def test_every_command_in_the_documents_exists(page: Path) -> None:
    assert not {line: wrong for line in _commands(page) if (wrong := _misused(line))}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_variable_in_the_documents_is_read_by_somebody(page: Path) -> None:
    ours = {f"ADSUM_{name.upper()}" for name in KNOWN | VARIABLES.keys()}
    named = set(re.findall(r"\bADSUM_[A-Z_]*[A-Z]\b", page.read_text("utf-8")))

    assert not named - ours - OTHER_VARIABLES


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_make_target_and_module_in_the_documents_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    code = "\n".join([*FENCE.findall(text), *(span[0] for span in SPAN.finditer(_prose(page)))])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    modules = set(re.findall(r"python -m ((?:bench|scripts|tests)\.\w+)", text))

    assert set(re.findall(r"(?:^|`|EXAMPLES=50 )make ([a-z-]+)", code, re.MULTILINE)) <= targets
    assert not [each for each in modules if not list(ROOT.glob(each.replace(".", "/") + "*"))]


def _roles() -> list[tuple[str, str, str | None]]:
    """The rows of the table in sign-in.md: method, pattern of a path, role."""
    table = re.findall(
        r"^\| (`[A-Z]+ /[^|]+) \| ([^|]+) \|$", (DOCS / "sign-in.md").read_text(), re.MULTILINE
    )
    return [
        (*span["code"].split(" ", 1), role.strip("`") if role.startswith("`") else None)  # type: ignore[misc]
        for cell, role in table
        for span in SPAN.finditer(cell)
    ]


def test_every_test_that_holds_off_an_attack_is_part_of_each_ci_run() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(test_\w+\.py)?(?:::(\w+))?`", text)
    left_out, file = [], ""
    for new_file, name in (each for each in named if any(each)):
        file = new_file or file
        if not any(is_in_ci(path, name) for path in (ROOT / "tests").rglob(file)):
            left_out.append(f"{file}::{name}")

    assert len(named) > 40
    assert not left_out, "missing, or slow without the mark core"


def is_in_ci(path: Path, name: str) -> bool:
    """Whether a test exists and is run by `make test`, `test-core`, `test-browser` or `test-real-cli`."""
    tree = ast.parse(path.read_text())
    marks = [ast.unparse(it) for it in tree.body if "pytestmark" in ast.unparse(it)[:10]]
    for each in ast.walk(tree):
        if name and getattr(each, "name", "") == name:
            assert isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            marks += [ast.unparse(it) for it in each.decorator_list]
            break
    else:
        if name:
            return False
    kept = " ".join(marks)
    return "mark.core" in kept or not ("mark.slow" in kept or "real_cli" in path.parts)


def test_roles_are_what_the_hub_asks_for() -> None:
    table = _roles()

    assert len(table) > 20
    for method, pattern, role in table:
        assert needed_for(method, pattern.replace("*", "x")) == role, f"{method} {pattern}"


def test_every_request_that_changes_something_stands_in_the_table_of_roles() -> None:
    paths: dict[str, dict[str, Any]] = schemas.openapi()["paths"]
    asked = [
        (method.upper(), re.sub(r"\{[^}]+\}", "x", path))
        for path in paths
        for method in paths[path]
    ]
    missing = [
        (method, path)
        for method, path in asked
        if not any(method == each and fnmatchcase(path, like) for each, like, _ in _roles())
    ]

    assert len(asked) > 25
    assert not missing


async def test_the_schemas_of_the_websocket_are_those_of_its_messages() -> None:
    class Roster:
        """What broadcast needs of one."""

        def __init__(self) -> None:
            self.views: dict[str, Any] = {}
            self.measures = Measures()

        def take_changes(self, now: int) -> Changes:
            del now
            return Changes(gone=("a",), gone_hosts=("b",))

        def settle(self, now: int) -> bool:
            del now
            return False

        def all_hosts(self, now: int) -> tuple[()]:
            del now
            return ()

    broadcast = Broadcast(Roster(), lambda: 7)  # type: ignore[arg-type]
    client, sent = broadcast.subscribe(None, None), []
    for change in (
        lambda: None,
        broadcast.flush,
        lambda: broadcast.set_trouble(HubTrouble("x", 1)),
    ):
        change()
        sent.append(await anext(client))
    kinds = (schemas.Snapshot, schemas.Deltas, schemas.Tick)

    for message, kind in zip(sent, kinds, strict=True):
        assert isinstance(msgspec.json.decode(message, type=kind), kind)
        assert msgspec.json.decode(message).keys() <= {"type", *kind.__struct_fields__}
    await client.aclose()


def _defined(path: Path) -> dict[str, int]:
    """Name of each function and class -> how many lines it has."""
    text = path.read_text("utf-8")
    if path.suffix == ".js":
        found = re.finditer(r"^(?:export )?function (\w+)\(.*?^}$", text, re.MULTILINE | re.DOTALL)
        return {each[1]: each[0].count("\n") + 1 for each in found}
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    sizes = {}
    for top in [node for node in ast.parse(text).body if isinstance(node, named)]:
        inner = [(f"{top.name}.", each) for each in top.body if isinstance(each, named)]
        for prefix, node in [("", top), *inner]:
            sizes[prefix + node.name] = (node.end_lineno or 0) - node.lineno + 1
    return sizes


def test_the_way_of_a_hook_is_read_in_35_files_and_as_many_lines_as_is_said() -> None:
    text = (DOCS / "design.md").read_text("utf-8")
    section = text.partition("### One hook, step by step")[2].partition("\n## ")[0]
    lines = 0
    steps = re.findall(r"^\| \d+ \| \[[^]]+\]\(([^)]+)\): ([^|]+) \|", section, re.MULTILINE)
    for link, names in steps:
        sizes = _defined(DOCS / link)
        lines += sum(sizes[name] for name in re.findall(r"`([^`]+)`", names))

    said = re.search(r"in order: ([\d,]+) lines", section)
    assert said is not None
    assert int(said[1].replace(",", "")) == pytest.approx(lines, rel=0.02)
    assert 0 < len({link for link, _ in steps}) == len(steps) <= 35
