"""Print the section of CHANGELOG.md that belongs to a release tag: `changelog_section.py v0.1.0`.

Fails if the tag is not `v` and the package's version, or if the changelog has no section of that version.
"""

# ruff: noqa: T201 - a script that speaks by printing

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def section(changelog: str, version: str) -> str | None:
    """Return the text below the version's heading, or None if there is none or it is empty."""
    heading = rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |^\[[^\]\n]+\]: |\Z)"
    match = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    return (match[1].strip() or None) if match else None


def package_version() -> str:
    source = (ROOT / "shared" / "adsum_shared" / "__init__.py").read_text()
    match = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    if match is None:
        sys.exit("changelog_section: shared/adsum_shared/__init__.py has no __version__")
    return match[1]


def main(tag: str) -> None:
    version = package_version()
    if tag != f"v{version}":
        sys.exit(
            f"changelog_section: the tag is {tag!r}, but the package's version is {version}. "
            f"Tag the commit as v{version}, or raise __version__ in shared/adsum_shared/__init__.py first."
        )
    text = section((ROOT / "CHANGELOG.md").read_text(), version)
    if text is None:
        sys.exit(
            f"changelog_section: CHANGELOG.md has no section [{version}], or it is empty. "
            f"Move the entries of [Unreleased] below `## [{version}] - DATE`."
        )
    print(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: changelog_section.py TAG")
    main(sys.argv[1])
