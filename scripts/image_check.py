"""Builds deploy/Dockerfile without Docker, in a clean root filesystem, and runs what comes out.

Its RUN and COPY steps, for real; then the hub, confined as docker-compose.yml confines it, beside a
Redis that deploy/redis/start.sh starts; then the image's own health check. Needs root, debootstrap, a
redis-server and the network. `make image-check`; --base DIR keeps the clean system for the next time.

Debian with Python 3.13 stands in for python:3.13-slim, which is made from it.
"""

# ruff: noqa: S603, S607, T201 - a script that runs programs and speaks by printing

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clean_system import clean_system, copy_of, inside, mounted, pip_settings, require

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
#: FROM -> the release of Debian whose own Python is that one, and its packages.
STANDS_FOR = {
    "python:3.13-slim": ("trixie", "python3,python3-venv,python-is-python3,ca-certificates")
}
LIMIT_S = 60.0
PASSWORD = "image-check"  # noqa: S105 - of a Redis that lives for a minute, in a network of its own


@dataclass(slots=True)
class Stage:
    """One FROM and what follows it."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0:0"


def stages(text: str) -> list[Stage]:
    joined = re.sub(r"\\\n(?:\s*#.*\n)*", " ", text)
    found: list[Stage] = []
    defaults: dict[str, str] = {}
    for line in joined.splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append(Stage(defaults.get(base.strip("${}"), base), name))
        elif word == "ARG" and not found:
            name, _, default = rest.partition("=")
            defaults[name] = default
        else:
            found[-1].steps.append((word, rest.strip()))
    return found


def build(work: Path, base: Path) -> None:
    """Every stage, in work/<number>."""
    roots: dict[str, Path] = {}
    for number, stage in enumerate(stages(DOCKERFILE.read_text())):
        root = work / str(number)
        copy_of(base / stage.base.replace(":", "-"), root)
        roots[stage.name] = root
        with mounted(root):
            for word, rest in stage.steps:
                began = time.monotonic()
                carry_out(stage, root, roots, word, rest)
                if word in ("RUN", "COPY"):
                    print(f"  {time.monotonic() - began:5.1f} s  {word} {rest[:90]}", flush=True)
        (work / "last.json").write_text(
            json.dumps([str(root), stage.env, stage.user, stage.workdir])
        )


def carry_out(stage: Stage, root: Path, roots: dict[str, Path], word: str, rest: str) -> None:
    match word:
        case "WORKDIR":
            stage.workdir = rest
            inside(root, rest).mkdir(parents=True, exist_ok=True)
        case "ENV":
            given = dict(pair.split("=", 1) for pair in shlex.split(rest))
            inherited = {"PATH": "/usr/local/bin:/usr/bin:/bin", **stage.env}
            stage.env |= {k: v.replace("$PATH", inherited["PATH"]) for k, v in given.items()}
        case "USER":
            stage.user = rest
        case "COPY":
            copy(stage, root, roots, rest)
        case "RUN":
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/"}
            script = f"cd {shlex.quote(stage.workdir)} && {rest}"
            subprocess.run(
                ["chroot", str(root), "/bin/sh", "-ec", script],
                env={**env, **stage.env, **pip_settings()},
                stdout=subprocess.DEVNULL,
                check=True,
            )
        case "LABEL" | "EXPOSE" | "VOLUME" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
            pass
        case _:
            sys.exit(f"{DOCKERFILE.name}: {word} is not known here; teach scripts/image_check.py")


def copy(stage: Stage, root: Path, roots: dict[str, Path], rest: str) -> None:
    """From the checkout only what .dockerignore lets through."""
    words = shlex.split(rest)
    source = ROOT
    if words[0].startswith("--from="):
        source = roots[words.pop(0).removeprefix("--from=")]
    allowed = {
        each[1:] for each in (ROOT / ".dockerignore").read_text().splitlines() if each[:1] == "!"
    }
    *names, to = words
    for name in names:
        if source == ROOT and name not in allowed:
            sys.exit(f"COPY {name}: .dockerignore keeps it out of the build")
        given = inside(source, name) if source != ROOT else ROOT / name
        target = inside(root, str(Path(stage.workdir) / to))
        if given.is_dir():
            hidden = shutil.ignore_patterns("__pycache__")
            shutil.copytree(given, target, symlinks=True, dirs_exist_ok=True, ignore=hidden)
        else:
            shutil.copy(given, target / given.name if to.endswith("/") else target)


def try_out(work: Path) -> None:
    """In a network of its own, so that no port can be taken."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    root_text, env, user, workdir = json.loads((work / "last.json").read_text())
    root = Path(root_text)
    words = {word: rest for stage in stages(DOCKERFILE.read_text()) for word, rest in stage.steps}
    entry, command = json.loads(words["ENTRYPOINT"]), json.loads(words["CMD"])
    health = json.loads(words["HEALTHCHECK"].partition("CMD")[2])
    for special in ("dev", "proc"):
        subprocess.run(["mount", "--rbind", f"/{special}", str(root / special)], check=True)
    subprocess.run(["mount", "--bind", str(root), str(root)], check=True)
    for writable in ("tmp", workdir):
        place = inside(root, writable)
        owner = "" if writable == "tmp" else f",uid={user.split(':')[0]},mode=0700"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size=64m{owner}", "tmpfs", str(place)], check=True
        )
    subprocess.run(["mount", "-o", "remount,bind,ro", str(root)], check=True)
    more = {"ADSUM_REDIS_URL": f"redis://hub:{PASSWORD}@127.0.0.1:6379/0"}
    more |= {"ADSUM_HUB_HOST": "0.0.0.0", "ADSUM_HUB_ALLOW_PUBLIC": "true"}  # noqa: S104 - as in Compose
    confined = Confined(root, user, workdir, {**env, **more})
    with redis(work), confined.start([*entry, *command]) as hub:
        began = time.monotonic()
        while confined.run(health).returncode:
            if hub.poll() is not None or time.monotonic() - began > LIMIT_S:
                sys.exit("the hub does not become healthy")
            time.sleep(0.2)
        print(f"  {time.monotonic() - began:5.1f} s  until the image's health check is content")
        for words_ in (["--version"], ["login"], ["doctor"]):
            done = confined.run([*entry, *words_])
            output = (done.stdout + done.stderr).strip().splitlines()
            print(
                f"         adsum {words_[0]}: {done.returncode}, {output[-1] if output else ''}"[
                    :120
                ]
            )
            if done.returncode and words_ != ["doctor"]:  # no collector runs in there
                sys.exit("\n".join(output))
        began = time.monotonic()
        hub.terminate()
        if code := hub.wait(15):
            sys.exit(f"the hub ended with {code}")
        print(f"  {time.monotonic() - began:5.1f} s  from SIGTERM to its end")
    play_demo(dataclasses.replace(confined, env={**env, "ADSUM_STATE_DIR": "/tmp/adsum"}), entry)  # noqa: S108 - the image's


def play_demo(confined: Confined, entry: list[str]) -> None:
    with confined.start([*entry, "up", "--demo"]) as run:
        began = time.monotonic()
        ask = "import urllib.request as u; u.urlopen('http://127.0.0.1:47993/readyz', timeout=2)"
        while confined.run(["python", "-c", ask]).returncode:
            if run.poll() is not None or time.monotonic() - began > LIMIT_S:
                sys.exit("the demo does not come up")
            time.sleep(0.2)
        print(f"  {time.monotonic() - began:5.1f} s  until the demo is ready")
        run.terminate()
        run.wait(30)


@dataclass(frozen=True, slots=True)
class Confined:
    """As a container that Compose starts: another user, no capability, nothing to write but two folders."""

    root: Path
    user: str
    workdir: str
    env: dict[str, str]

    def words(self, command: list[str]) -> list[str]:
        uid, gid = self.user.split(":")
        drop = ["--reuid", uid, "--regid", gid, "--clear-groups", "--no-new-privs"]
        drop += ["--bounding-set=-all", "--inh-caps=-all"]
        cd = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"
        chroot = shutil.which("chroot") or "chroot"  # the image's PATH has no such place
        return [chroot, str(self.root), "setpriv", *drop, "sh", "-c", cd]

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.words(command), env=self.env)

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(command), env=self.env, capture_output=True, text=True, check=False
        )


@contextlib.contextmanager
def redis(work: Path) -> Iterator[None]:
    data = work / "redis"
    data.mkdir()
    env = {**os.environ, "REDIS_DATA": str(data), "REDIS_HUB_PASSWORD": PASSWORD}
    script = ["sh", str(ROOT / "deploy" / "redis" / "start.sh"), "--port", "6379"]
    server = subprocess.Popen(script, env=env, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        server.terminate()
        server.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--base", type=Path, help="where clean systems are kept; else they go again"
    )
    parser.add_argument("--part", choices=["build", "try"], help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part == "build":
        build(asked.work, asked.base)
    elif asked.part == "try":
        try_out(asked.work)
    else:
        check(asked.base)


def check(kept: Path | None) -> None:
    """kept: where clean systems lie; None: nowhere."""
    require("debootstrap", "chroot", "unshare", "redis-server")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="adsum-image-") as folder:
        work = Path(folder)
        base = (kept or work / "base").resolve()
        base.mkdir(parents=True, exist_ok=True)
        for name, (release, packages) in STANDS_FOR.items():
            clean_system(base, name.replace(":", "-"), release, packages)
        # In mounts that end with the process: nothing of ours is left mounted, however this ends.
        alone = ["unshare", "--mount", "--propagation", "private"]
        again = [sys.executable, __file__, "--work", str(work), "--base", str(base), "--part"]
        subprocess.run([*alone, *again, "build"], check=True)
        subprocess.run([*alone, "--net", *again, "try"], check=True)
    print(f"  {time.monotonic() - began:5.1f} s  in all")


if __name__ == "__main__":
    main()
