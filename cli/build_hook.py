"""Hatchling runs this while it builds: it records commit and date in the wheel and in the sdist."""

from __future__ import annotations

import json
import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildRecorder(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # asks git when it runs
            return
        # By path: the package that is being built need not be importable.
        module = runpy.run_path(str(Path(self.root) / "cli" / "adsum" / "build.py"))
        name = module["BUILD_FILE"]
        # An unpacked sdist already contains the build file. Its wheel is then byte-identical to the checkout's.
        file = Path(self.root) / "cli" / name
        if not file.exists():
            build = module["git_build"](Path(self.root))
            if build is None:
                return
            self.folder = tempfile.TemporaryDirectory()
            file = Path(self.folder.name) / name
            file.write_text(json.dumps(build._asdict()) + "\n", "utf-8")
            if self.target_name == "sdist":
                build_data["force_include"][str(file)] = f"cli/{name}"
        if self.target_name == "wheel":
            build_data["force_include"][str(file)] = f"adsum/{name}"
