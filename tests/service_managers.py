"""A systemctl and a launchctl on PATH that keep what they are told, and write down every call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

_HEAD = """#!/bin/sh
echo "$*" >> "$FAKE/calls"
[ "$1" = --user ] && shift
verb=$1; shift
if [ -e "$FAKE/refuse-$verb" ]; then cat "$FAKE/refuse-$verb" >&2; exit 1; fi
"""
SYSTEMCTL = (
    _HEAD
    + """
case $verb in
enable|start|restart)
  for unit; do
    [ -e "$UNITS/$unit" ] || { echo "Unit $unit not found." >&2; exit 5; }
    touch "$FAKE/$([ $verb = enable ] && echo enabled || echo active)-$unit"
  done ;;
disable) shift; for unit; do rm -f "$FAKE/enabled-$unit" "$FAKE/active-$unit"; done ;;
stop) for unit; do rm -f "$FAKE/active-$unit"; done ;;
show)
  [ "$1" = --property=Version ] && { echo 252; exit; }
  unit=$1
  [ -e "$UNITS/$unit" ] || { echo LoadState=not-found; exit; }
  echo LoadState=loaded
  if [ -e "$FAKE/active-$unit" ]; then
    printf 'ActiveState=active\\nSubState=running\\nActiveEnterTimestampMonotonic=1000000\\n'
  else
    printf 'ActiveState=failed\\nSubState=failed\\nResult=exit-code\\n'
  fi
  [ -e "$FAKE/enabled-$unit" ] && echo UnitFileState=enabled || echo UnitFileState=disabled
  cat "$FAKE/more-$unit" 2>/dev/null ;;
esac
exit 0
"""
)
LAUNCHCTL = (
    _HEAD
    + """
case $verb in
bootstrap)
  label=$(basename "$2" .plist)
  [ -e "$FAKE/$label" ] && { echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; }
  touch "$FAKE/$label" ;;
bootout) rm -f "$FAKE/${1##*/}" ;;
print)
  case ${1##*/} in *[!0-9]*) ;; *) exit 0 ;; esac
  [ -e "$FAKE/${1##*/}" ] || { echo "Could not find service" >&2; exit 113; }
  printf '%s = {\\n\\tstate = running\\n\\truns = 3\\n\\tpid = %s\\n}\\n' "$1" "$PPID" ;;
esac
exit 0
"""
)


@dataclass
class Fake:
    """home: everything that an install may write lies below it."""

    home: Path
    folder: Path

    @property
    def units(self) -> Path:
        return self.home / ".config" / "systemd" / "user"

    @property
    def state_dir(self) -> Path:
        return self.home / "state"

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def forget(self) -> None:
        (self.folder / "calls").write_text("")

    def refuse(self, verb: str, why: str) -> None:
        (self.folder / f"refuse-{verb}").write_text(why)

    def tree(self) -> dict[str, str | None]:
        """Everything below the home but the state directory; None: a folder."""
        return {
            str(path.relative_to(self.home)): None if path.is_dir() else path.read_text()
            for path in self.home.rglob("*")
            if not path.is_relative_to(self.state_dir)
        }


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **programs: str) -> Fake:
    """Programs first on PATH, and a home that is empty."""
    fake = Fake(tmp_path / "home", tmp_path / "fake")
    binaries = tmp_path / "bin"
    for folder in (fake.home, fake.folder, binaries):
        folder.mkdir()
    for name, text in programs.items():
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("ADSUM_", "CLAUDE", "XDG_"))]:
        monkeypatch.delenv(name)
    for name in ("SUDO_UID", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(fake.home))
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE", str(fake.folder))
    monkeypatch.setenv("UNITS", str(fake.units))
    monkeypatch.setenv("ADSUM_STATE_DIR", str(fake.state_dir))
    monkeypatch.setenv("ADSUM_REDIS_URL", "redis://machine:pa$s@broker.example:6379")
    return fake
