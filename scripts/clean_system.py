"""Clean Debian systems by debootstrap, and what a command needs in one: /proc, /dev, this machine's way to packages."""

# ruff: noqa: S603, S607, T201 - a module of scripts that run programs and speak by printing

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def require(*programs: str) -> None:
    """Exits with what is missing: root, or a program."""
    missing = [each for each in programs if not shutil.which(each)]
    if os.geteuid() != 0 or missing:
        what = "root" if os.geteuid() != 0 else ""
        sys.exit(f"{Path(sys.argv[0]).name} needs {' and '.join(filter(None, [what, *missing]))}")


def clean_system(folder: Path, name: str, release: str, packages: str) -> Path:
    """Made once; it stays as it is."""
    target = folder / name
    if target.exists():
        return target
    began = time.monotonic()
    draft = target.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={packages}", release, str(draft)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    draft.rename(target)
    print(f"  {time.monotonic() - began:5.1f} s  a clean Debian {release} for {name}", flush=True)
    return target


def copy_of(base: Path, root: Path) -> None:
    # Not by shutil: it would read what /dev/full and /dev/zero hold, and fill the disk.
    subprocess.run(["cp", "-a", str(base), str(root)], check=True)
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")


def inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def pip_settings() -> dict[str, str]:
    """Where this machine's pip gets packages from, for the pip in there; also proxies."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    pairs = re.findall(r"^[\w:]*\.([\w-]+)='(.*)'$", listed, re.MULTILINE)
    proxies = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    return {f"PIP_{name.upper().replace('-', '_')}": value for name, value in pairs} | proxies


@contextlib.contextmanager
def mounted(root: Path) -> Iterator[None]:
    """With /proc, /dev, and the folders on this machine that its pip reads.

    To be called in mounts of one's own (unshare --mount): then nothing stays mounted, however it ends.
    """
    local = {
        Path(p)
        for value in pip_settings().values()
        for p in re.findall(r"(?:file://)?(/[^\s:]+)", value)
    }
    shared = {path if path.is_file() else Path(*path.parts[:3]) for path in local if path.exists()}
    made: list[Path] = []
    try:
        for place in (Path("/dev"), Path("/proc"), *sorted(shared)):
            target = inside(root, str(place))
            if place.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            elif not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
            # A fresh /proc, as the processes in there may have numbers of their own.
            what = ["-t", "proc", "proc"] if str(place) == "/proc" else ["--rbind", str(place)]
            subprocess.run(["mount", *what, str(target)], check=True)
            made.append(target)
        yield
    finally:
        for target in reversed(made):
            subprocess.run(["umount", "--recursive", "--lazy", str(target)], check=True)
