"""Write docs/cli.md, docs/configuration.md and docs/schemas from the code itself: `python -m scripts.reference`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from typer.main import get_command

from adsum.app import app
from adsum.config import VARIABLES, own_names, settings_by_part
from adsum_shared.settings import TABLES, AdsumSettings
from scripts import schemas

DOCS = Path(__file__).parent.parent / "docs"
HEAD = "<!-- Written by `python -m scripts.reference`. Change the code instead. -->\n"
#: Defaults that differ from one machine to the next.
PRESETS = {
    "state_dir": "`~/.local/state/adsum`; on macOS `~/Library/Application Support/adsum`",
    "price_file": "`prices.toml` beside `config.toml`",
    "claude_dirs": "`CLAUDE_CONFIG_DIR`, else `~/.claude`",
    "codex_dirs": "`CODEX_HOME`, else `~/.codex`",
    "gemini_dirs": "`GEMINI_CLI_HOME`, else `~`, and in it `.gemini`",
    "opencode_dirs": "`XDG_DATA_HOME`, else `~/.local/share`, and in it `opencode`",
}
#: Where the name says it all, to whoever knows what the others say.
WORDS = {
    "hub_port": "Port the hub listens on; 0: any free one.",
    "log_level": "debug, info, warning or error.",
}
CLI_INTRO = """# Commands

Data goes to standard output, everything else to standard error. `NO_COLOR` switches colours off. Where a command takes a session, the start of its
id will do. Exit codes, of every command:

| code | means |
|---|---|
| 0 | all well |
| 1 | something went wrong; the message says what, and what to do next |
| 2 | a word, an option or a setting cannot be used |
| 3 | no hub answers; for `upgrade --check`: the package index lists no release |
| 4 | the hub does not let you in |
| 5 | partial: some hosts are stale, so part of the answer is too |
| 10 | someone needs you, where `--exit-status` asked; of `upgrade --check`: a newer release exists |
| 130 | interrupted |

Settings that options and variables share are in [configuration.md](configuration.md).
"""
CONFIG_INTRO = """# Configuration

A flag counts before a variable, a variable before the file, the file before the default. The file is `config.toml` in `~/.config/adsum`
(on macOS in `~/Library/Application Support/adsum`), and all parts read the same one. `adsum config show --origin` tells what holds on a machine,
and which of them said so.

In a variable, lists and tables are written as JSON; `ADSUM_CLAUDE_DIRS` is separated like `PATH`. A name in the file that no part
knows keeps parts from starting, so that no slip of the pen goes unnoticed, and `adsum config show` names it. Commands that only
ask a hub, such as `adsum agents`, pass over it.
"""


def cli() -> str:
    root = get_command(app)
    parts = [HEAD, CLI_INTRO, *(_command(words, each) for words, each in _leaves("adsum", root))]
    return "\n".join(parts)


def _leaves(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, a group that does something itself before its own."""
    children = getattr(command, "commands", {})
    if not children or command.invoke_without_command:
        yield words, command
    for name, child in sorted(children.items()):
        if not child.hidden:
            yield from _leaves(f"{words} {name}", child)


def _command(words: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join([words, *(_placed(each) for each in arguments)])
    lines = [f"## {words}\n", f"`{usage}{' [OPTIONS]' if options else ''}`\n"]
    lines.append(f"{(command.help or '').strip()}\n")
    rows = [(f"`{_placed(each)}`", each) for each in arguments if getattr(each, "help", None)]
    rows += [(_names(each), each) for each in options if not each.hidden and each.name != "help"]
    if rows:
        lines.append("| | |\n|---|---|")
        lines += [f"| {name} | {_cell(_description(each))} |" for name, each in rows]
        lines.append("")
    return "\n".join(lines)


def _placed(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    said = ", ".join(f"`{each}`" for each in option.opts)
    if option.secondary_opts:
        said += " / " + ", ".join(f"`{each}`" for each in option.secondary_opts)
    return said if option.is_flag else f"{said} `{_kind(option)}`"


def _kind(option: Any) -> str:
    kind = option.type_descriptor.annotation
    return {"str": "TEXT", "int": "NUMBER"}.get(kind.__name__, kind.__name__.upper())


def _description(option: Any) -> str:
    said = [option.help or ""]
    shown = option.default is not None and not callable(option.default)
    if shown and option.default not in (False, True, (), ""):
        said.append(f"Default: `{option.default}`.")
    variable = getattr(option, "envvar", None)
    if variable:
        said.append(f"Variable: `{variable}`.")
    return " ".join(filter(None, said))


def configuration() -> str:
    lines = [HEAD, CONFIG_INTRO]
    for part, kind in settings_by_part().items():
        fields = {name: kind.model_fields[name] for name in own_names(kind)}
        lines.append(f"## {part[0].upper()}{part[1:]}\n")
        lines.append("| setting | variable | default | |\n|---|---|---|---|")
        lines += [_setting(kind, name, field) for name, field in fields.items()]
        lines.append("")
    lines.append(
        "## Rules of control\n\nIn the file alone: `[[control.rule]]`, `[[control.tag]]` and, below "
        "`[control]`, `two_persons`. A collector that\nruns takes them up at once; "
        "docs/control.md, Rules, says what each holds.\n"
    )
    lines.append("## Variables alone\n\nRead by commands, and not from the file.\n")
    lines.append("| variable | |\n|---|---|")
    lines += [f"| `ADSUM_{name.upper()}` | {_cell(said)} |" for name, said in VARIABLES.items()]
    return "\n".join([*lines, ""])


def _setting(kind: type[AdsumSettings], name: str, field: FieldInfo) -> str:
    del kind
    written = f"`[[{name}]]`" if name in TABLES else f"`{name}`"
    said = field.description or WORDS.get(name)
    if said is None:
        raise SystemExit(f"{name} has no description: give its Field one")
    return f"| {written} | `ADSUM_{name.upper()}` | {_preset(name, field)} | {_cell(said)} |"


def _preset(name: str, field: FieldInfo) -> str:
    if name in PRESETS:
        return PRESETS[name]
    preset = field.get_default(call_default_factory=True)
    if preset in (None, [], ()):
        return ""
    return f"`{str(preset).lower() if isinstance(preset, bool) else preset}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def main() -> None:
    files = {"cli.md": cli(), "configuration.md": configuration()}
    (DOCS / "schemas").mkdir(exist_ok=True)
    files |= {f"schemas/{name}": text for name, text in schemas.written().items()}
    for name, text in files.items():
        (DOCS / name).write_text(text, "utf-8")
        sys.stdout.write(f"wrote docs/{name}\n")


if __name__ == "__main__":
    main()
