"""Third-party files of the dashboard: fetch them by npm, or prove offline that nothing changed.

    vendor.py --check     every file is there, unaltered, and no other; reads nothing but the disk
    vendor.py --update    fetch the versions named in vendor.lock.json and rewrite vendor/

The lock names each package's version, npm's sha512 of its tarball and the files taken from it; for
a new version change `version` and empty `integrity`. Files are renamed, bare module names become
relative ones (an import map would need an inline script) and source map lines go, so what lies in
vendor/ has its own sha384 in `hashes`. The icons become one sprite. A font keeps the signs, features
and weights of its `subset`, which takes fonttools and brotli: `uv run --with fonttools,brotli`.
`types` are the one-line declarations by which the type checker finds each package's own.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

WEB = Path(__file__).parent.parent / "hub" / "adsum_hub" / "web"
LOCK = "vendor.lock.json"


class VendorError(Exception):
    """Something in vendor/ or in a fetched package is not what the lock says."""


def digest(content: bytes, algorithm: str) -> str:
    """`algorithm-base64`, the form that npm and browsers use."""
    return f"{algorithm}-{base64.b64encode(hashlib.new(algorithm, content).digest()).decode()}"


def fetch(name: str, version: str, integrity: str, into: Path) -> tuple[bytes, str]:
    """The package's tarball and its sha512, which is what npm's registry and the lock both say."""
    answer = subprocess.run(  # noqa: S603 - our own lock names the package
        ["npm", "pack", "--json", "--pack-destination", str(into), f"{name}@{version}"],  # noqa: S607 - npm is where the developer has it
        check=True,
        capture_output=True,
        text=True,
    )
    packed = json.loads(answer.stdout)
    entry = packed[0] if isinstance(packed, list) else next(iter(packed.values()))
    tarball = (into / Path(entry["filename"]).name).read_bytes()
    found = digest(tarball, "sha512")
    for who, expected in (("npm", entry["integrity"]), ("the lock", integrity or found)):
        if found != expected:
            raise VendorError(f"{name}@{version}: tarball is {found}, {who} says {expected}")
    return tarball, found


def relative_imports(source: str, names: dict[str, str]) -> str:
    """Bare module names to the files they lie in here, without the source map lines."""
    source = re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "\n", source)
    return re.sub(
        r'(from\s*|import\s*)"([^".\s][^"\s]*)"', lambda m: f'{m[1]}"./{names[m[2]]}"', source
    )


def sprite(icons: dict[str, str], licence: str) -> str:
    """One SVG with a <symbol> per icon; stroke and size come from the page's style."""
    symbols = []
    for name, svg in icons.items():
        match = re.search(r"<svg[^>]*>(.*)</svg>", svg, re.DOTALL)
        if match is None:
            raise VendorError(f"icon {name}: no <svg> element in it")
        shapes = re.sub(r"\s*\n\s*", "", match[1])
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{shapes}</symbol>')
    body = "\n".join(symbols)
    return f'<!-- {licence} -->\n<svg xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>\n'


def lean(font: bytes, keep: dict[str, str]) -> bytes:
    """The font with `keep` alone: weights from:to, unicodes, layout features."""
    try:
        from fontTools import subset
        from fontTools.ttLib import TTFont
        from fontTools.varLib import instancer
    except ImportError as error:
        step = "run it with them: uv run --with fonttools,brotli scripts/vendor.py --update"
        raise VendorError(
            f"fonts are cut with fonttools and brotli, which are missing: {step}"
        ) from error
    least, most = (float(weight) for weight in keep["weights"].split(":"))
    found = instancer.instantiateVariableFont(
        TTFont(io.BytesIO(font), recalcTimestamp=False), {"wght": (least, most)}
    )
    options = subset.Options(layout_features=keep["features"].split(","), hinting=False)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=subset.parse_unicodes(keep["unicodes"]))
    cutter.subset(found)
    found.flavor = "woff2"
    out = io.BytesIO()
    found.save(out)
    return out.getvalue()


def unpack(package: dict[str, Any], tarball: bytes, names: dict[str, str]) -> dict[str, bytes]:
    """The files this package gives, by their name in vendor/."""
    with tempfile.TemporaryFile() as file:
        file.write(tarball)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:

            def member(path: str) -> bytes:
                handle = archive.extractfile(f"package/{path}")
                if handle is None:
                    raise VendorError(f"{package['name']}: {path} is no file")
                return handle.read()

            files = {}
            for source, target in package["files"].items():
                content = member(source)
                if target.endswith(".js"):
                    content = relative_imports(content.decode(), names).encode()
                if target in package.get("subset", {}):
                    content = lean(content, package["subset"][target])
                files[target] = content
            if "icons" in package:
                icons = {name: member(f"icons/{name}.svg").decode() for name in package["icons"]}
                notice = f"lucide {package['version']}, ISC, see LICENSE-lucide.txt"
                files[package["sprite"]] = sprite(icons, notice).encode()
    return files


def update(web: Path) -> None:
    lock = json.loads((web / LOCK).read_text())
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for package in lock["packages"]:
            tarball, package["integrity"] = fetch(
                package["name"], package["version"], package["integrity"], Path(scratch)
            )
            files |= unpack(package, tarball, lock["modules"])
    files |= {name: f"{text}\n".encode() for name, text in lock["types"].items()}
    vendor = web / "vendor"
    vendor.mkdir(exist_ok=True)
    for old in vendor.iterdir():
        old.unlink()
    for name, content in files.items():
        (vendor / name).write_bytes(content)
    lock["hashes"] = {name: digest(files[name], "sha384") for name in sorted(files)}
    (web / LOCK).write_text(json.dumps(lock, indent=2) + "\n")


def check(web: Path) -> None:
    """Raise VendorError naming every file that is changed, missing or not in the lock."""
    hashes: dict[str, str] = json.loads((web / LOCK).read_text())["hashes"]
    there = {path.name: path for path in (web / "vendor").iterdir()}
    faults = [f"missing: {name}" for name in sorted(hashes.keys() - there.keys())]
    faults += [f"not in the lock: {name}" for name in sorted(there.keys() - hashes.keys())]
    faults += [
        f"changed: {name}"
        for name in sorted(hashes.keys() & there.keys())
        if digest(there[name].read_bytes(), "sha384") != hashes[name]
    ]
    if faults:
        raise VendorError("; ".join(faults) + "; restore them by `scripts/vendor.py --update`")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="offline: prove nothing changed")
    mode.add_argument("--update", action="store_true", help="fetch what the lock names, with npm")
    parser.add_argument("--web", type=Path, default=WEB, help="the dashboard's directory")
    args = parser.parse_args()
    try:
        if args.update:
            update(args.web)
        check(args.web)
    except VendorError as error:
        print(f"vendor: {error}", file=sys.stderr)  # noqa: T201 - a script's answer
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
