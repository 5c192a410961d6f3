"""Shows which release is newest, and the command that upgrades this installation."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from adsum.build import build_of
from adsum.outcome import CommandError, Exit, put, put_json
from adsum_shared import __version__
from adsum_shared.redact import clean

SCHEMA = 1
TIMEOUT_S = 60.0
UNANSWERED = (
    "The package index lists no release of adsum: {}. Check this machine's connection, and whether "
    "adsum is on your index. `adsum upgrade` prints how to upgrade without asking."
)
#: Where deploy/Dockerfile installs, and the folder from which it does.
IMAGE_PREFIX = Path("/opt/adsum")
IMAGE_WHEELS = "/dist/"
_RELEASE = re.compile(r"(\d+(?:\.\d+)*)([0-9a-z.+]*)")


class InstallMethod(StrEnum):
    CHECKOUT = "checkout"
    IMAGE = "image"
    PIP = "pip"
    PIPX = "pipx"
    UV_PIP = "uv pip"
    UV_TOOL = "uv tool"
    UVX = "uvx"


@dataclass(frozen=True, slots=True)
class InstalledCopy:
    method: InstallMethod
    #: The Python that runs it.
    python: str
    #: Whether it was installed from a package index, where the installer can look for the next release.
    from_index: bool = True
    #: What to install again: the package's name, a folder, or the address of a repository.
    requirement: str = "adsum"

    @property
    def command(self) -> str:
        """Return the shell command that upgrades it."""
        is_checkout = (Path(self.requirement) / ".git").exists()
        pull = f"git -C {shlex.quote(self.requirement)} pull && " if is_checkout else ""
        return pull + self._install

    @property
    def _install(self) -> str:
        python, requirement = shlex.quote(self.python), shlex.quote(self.requirement)
        # Without this an installer keeps what it has of the same version.
        again = self.requirement != "adsum"
        match self.method:
            case InstallMethod.CHECKOUT:
                return f"make -C {requirement} up"
            case InstallMethod.IMAGE:
                return "docker compose pull hub && docker compose up -d  # after raising ADSUM_VERSION in .env"
            case InstallMethod.UVX:
                return "uvx adsum@latest up"
            case InstallMethod.UV_TOOL:
                install = f"uv tool install --force{' --reinstall' * again} {requirement}"
                return "uv tool upgrade adsum" if self.from_index else install
            case InstallMethod.PIPX:
                install = f"pipx install --force {requirement}"
                return "pipx upgrade adsum" if self.from_index else install
            case InstallMethod.UV_PIP:
                option = "--reinstall" if again else "--upgrade"
                return f"uv pip install --python {python} {option} {requirement}"
            case InstallMethod.PIP:
                option = " --force-reinstall" * again
                return f"{python} -m pip install --upgrade{option} {requirement}"


def installed_copy(package: Distribution, prefix: Path, python: str) -> InstalledCopy:
    """Return how the package came into the environment at prefix, by what its installer left there.

    uv and pipx leave a file in the environment. pip and `uv pip` name themselves in the package's
    metadata, which also names the folder, file or repository that it came from (PEP 610).
    """
    origin: dict[str, Any] = json.loads(package.read_text("direct_url.json") or "{}")
    path = unquote(urlsplit(origin.get("url", "")).path)
    requirement = "adsum"
    if "dir_info" in origin and Path(path).is_dir():
        requirement = path
    elif "vcs_info" in origin:
        source = origin["vcs_info"]
        revision = f"@{source['requested_revision']}" if "requested_revision" in source else ""
        requirement = f"{source['vcs']}+{origin['url']}{revision}"
    if origin.get("dir_info", {}).get("editable"):
        method = InstallMethod.CHECKOUT
    elif prefix == IMAGE_PREFIX and path.startswith(IMAGE_WHEELS):
        method = InstallMethod.IMAGE
    elif (prefix / "uv-receipt.toml").exists():
        method = InstallMethod.UV_TOOL
    elif (prefix / "pipx_metadata.json").exists():
        method = InstallMethod.PIPX
    elif (package.read_text("INSTALLER") or "").strip() != "uv":
        method = InstallMethod.PIP
    elif "archive-v0" in prefix.parts:  # of uv's cache
        method = InstallMethod.UVX
    else:
        method = InstallMethod.UV_PIP
    return InstalledCopy(method, python, not origin, requirement)


class _Metadata(msgspec.Struct):
    version: str


class _Package(msgspec.Struct):
    metadata: _Metadata


class _PipReport(msgspec.Struct):
    install: list[_Package]


#: Both installers ask the index that the user has set up, with its mirror and its credentials. Without -P a
#: pip.py in the current folder would run.
PIP = ("-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", "--dry-run",
       "--no-deps", "--ignore-installed", "--report=-", "adsum")  # fmt: skip
UV = ("pip", "compile", "--quiet", "--no-deps", "--no-header", "--no-annotate", "-")


def newest_release() -> str:
    """Ask the package index for the version of the newest release, by pip or uv.

    Raises CommandError if neither is there, or if the one that is there finds no release.
    """
    if importlib.util.find_spec("pip"):
        return (
            msgspec.json.decode(_ask([sys.executable, *PIP]), type=_PipReport)
            .install[0]
            .metadata.version
        )
    if uv := shutil.which("uv"):
        return _ask([uv, *UV, f"--python={sys.executable}"]).strip().removeprefix("adsum==")
    raise CommandError(
        "Neither pip nor uv is here to ask for the newest release. Install one of them."
    )


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - an installer, without a shell
            command, input="adsum", capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
    except subprocess.TimeoutExpired as error:
        cause = f"no answer within {TIMEOUT_S:g} s"
        raise CommandError(UNANSWERED.format(cause), Exit.UNREACHABLE) from error
    except subprocess.CalledProcessError as error:
        cause = error.stderr.strip().rpartition("\n")[2] or f"exit code {error.returncode}"
        raise CommandError(UNANSWERED.format(clean(cause)), Exit.UNREACHABLE) from error
    return done.stdout


def is_newer(version: str, other: str) -> bool:
    """Return whether version comes after other. A pre-release comes before its release, a post-release after."""
    return _order(version) > _order(other)


def _order(version: str) -> tuple[list[int], int, str]:
    match = _RELEASE.match(version)
    numbers, suffix = match.groups() if match else ("0", version)
    release = [int(number) for number in re.sub(r"(\.0+)+$", "", numbers).split(".")]
    return release, 0 if not suffix else 1 if suffix.startswith(".post") else -1, suffix


def repository(package: Distribution) -> str | None:
    """Return the repository's address by the package's metadata: [project.urls] of pyproject.toml."""
    urls = (entry.partition(", ") for entry in package.metadata.get_all("Project-URL") or ())
    return next((address for label, _, address in urls if label == "Repository"), None)


def show_upgrade(*, check: bool, as_json: bool) -> int:
    """Print the command that upgrades this installation; with check, whether a newer release exists."""
    package = distribution("adsum")
    copy = installed_copy(package, Path(sys.prefix), sys.executable)
    build = build_of(Path(__file__).parent)
    newest = newest_release() if check else None
    newer = newest is not None and is_newer(newest, __version__)
    address = repository(package)
    changes = f"{address}/releases" if newer and address else None
    if as_json:
        put_json(
            {
                "schema": SCHEMA,
                "version": __version__,
                "commit": build and build.commit,
                "date": build and build.date,
                "newest": newest,
                "newer": newer if check else None,
                "method": copy.method,
                "command": copy.command,
                "changes": changes,
            }
        )
    elif not check:
        put(copy.command)
    elif newer:
        put(f"adsum {newest} is available. Installed: {__version__}, by {copy.method}.")
        put(f"Upgrade: {copy.command}")
        if changes:
            put(f"Changes: {changes}")
    else:
        put(f"No newer release. Installed: adsum {__version__}. Newest: {newest}.")
    return Exit.NEEDS_YOU if newer else Exit.OK
