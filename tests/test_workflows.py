"""What .github promises: few rights, actions that cannot change, steps that run here, and a guarded release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.yml"))}
WORKFLOWS: dict[str, dict[Any, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
#: Every right beyond reading the repository: (workflow, job) -> rights.
WRITES = {
    ("nightly", "cli-news"): {"issues"},
    ("release", "image"): {"packages"},
    ("release", "pypi"): {"id-token"},
    ("release", "pages"): {"pages", "id-token"},
    ("release", "github-release"): {"contents"},
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def _jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for workflow, content in WORKFLOWS.items():
        for name, job in content["jobs"].items():
            yield workflow, name, job


def _steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = job.get("steps", [])
    return steps


def test_a_job_has_only_the_rights_it_needs_and_ends() -> None:
    writes = {}
    for workflow, name, job in _jobs():
        rights = job.get("permissions", WORKFLOWS[workflow]["permissions"])
        if granted := {right for right, value in rights.items() if value != "read"}:
            writes[workflow, name] = granted
        assert set(rights.values()) <= {"read", "write"}, (workflow, name)
        assert "uses" in job or job["timeout-minutes"] <= 180, (workflow, name)
        for step in _steps(job):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, (workflow, name)

    assert writes == WRITES
    assert {"ci", "nightly", "release", "audit"} <= WORKFLOWS.keys()
    for workflow, content in WORKFLOWS.items():
        assert content["permissions"] in ({}, {"contents": "read"}), workflow
        if workflow != "audit":
            # Half a release is worse than two that wait for each other.
            assert content["concurrency"]["cancel-in-progress"] is (workflow != "release")


def test_an_action_is_one_commit_with_its_version_beside_it() -> None:
    versions: dict[str, set[str]] = {}
    for workflow, text in TEXTS.items():
        for used in re.findall(r"uses: (.+)$", text, re.MULTILINE):
            if used.startswith("./"):
                assert (ROOT / used.split()[0]).is_file(), used
                continue
            pinned = re.fullmatch(r"([\w./-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)", used)
            assert pinned, (workflow, used)
            if workflow != "audit":
                versions.setdefault(pinned[1], set()).add(pinned[2])

    assert {name: pins for name, pins in versions.items() if len(pins) != 1} == {}


def test_a_shell_step_is_one_make_target_without_text_from_outside() -> None:
    for workflow, name, job in _jobs():
        for step in _steps(job):
            if workflow == "audit" or "run" not in step:
                continue
            command = re.fullmatch(r"make (?:ci-)?([a-z-]+)( [A-Z]+=\d+)?", step["run"])
            assert command, (workflow, name, step["run"])
            assert command[1] in TARGETS, (workflow, name, step["run"])


def test_ci_runs_each_kind_of_test_on_each_supported_system() -> None:
    jobs = WORKFLOWS["ci"]["jobs"]
    runs = {step["run"] for job in jobs.values() for step in _steps(job) if "run" in step}
    matrix = jobs["test"]["strategy"]["matrix"]
    floor = re.search(r'requires-python = ">=(.+)"', (ROOT / "pyproject.toml").read_text())

    assert {"make check", "make ci-test", "make ci-test-browser", "make ci-test-real-cli"} <= runs
    assert floor
    assert matrix["python"] == [floor[1], "3.12", "3.13", "3.14"]
    assert [entry["os"] for entry in matrix["include"]] == ["macos-15"]


def _ancestors(jobs: dict[str, Any], name: str) -> set[str]:
    needs = jobs[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(_ancestors(jobs, each) for each in direct))


def test_a_release_publishes_nothing_before_guard_and_ci_passed() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    for workflow, name in WRITES:
        if workflow == "release":
            assert {"guard", "ci"} <= _ancestors(jobs, name), name
    assert jobs["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert "actions/cache" not in TEXTS["release"]
    assert not re.search(r"(?<!no-)cache: ", TEXTS["release"])

    guard = next(step for step in _steps(jobs["guard"]) if "run" in step)
    assert (guard["run"], guard["env"]) == (
        "make release-notes",
        {"TAG": "${{ github.ref_name }}"},
    )
    image = _steps(jobs["image"])[-1]["with"]
    assert image["platforms"] == "linux/amd64,linux/arm64"
    assert (image["sbom"], image["provenance"]) == (True, "mode=max")
    assert (ROOT / image["file"]).is_file()
    assert jobs["pypi"]["environment"] == "pypi"
    assert _steps(jobs["pypi"])[-1]["with"] == {"attestations": True}


def _run(folder: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def _checkout(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)


def test_release_notes_are_the_section_of_the_tag_which_is_the_version(tmp_path: Path) -> None:
    _checkout(tmp_path, "Makefile", "scripts/changelog_section.py")
    (tmp_path / "shared" / "adsum_shared").mkdir(parents=True)
    (tmp_path / "shared" / "adsum_shared" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    changelog = tmp_path / "CHANGELOG.md"
    notes = tmp_path / ".rig" / "release-notes.md"
    whole = "# Changelog\n\n## [Unreleased]\n\n- later\n\n## [1.2.0] - 2026-11-28\n\n### Added\n\n- this\n\n## [1.1.0]\n\n- before\n"

    changelog.write_text(whole)
    assert _run(tmp_path, "make", "release-notes", TAG="v1.2.0").returncode == 0
    assert notes.read_text() == "### Added\n\n- this\n"

    for tag in ("1.2.0", "v1.2.1", "v1.1.0", "", "v1.2.0; touch injected", "$(touch injected)"):
        failed = _run(tmp_path, "make", "release-notes", TAG=tag)
        assert failed.returncode != 0, tag
        assert "version is 1.2.0" in failed.stderr
    assert not (tmp_path / "injected").exists()

    for text in (
        whole.replace("[1.2.0]", "[1.2.0rc1]"),
        whole.replace("### Added\n\n- this\n\n", ""),
    ):
        changelog.write_text(text)
        failed = _run(tmp_path, "make", "release-notes", TAG="v1.2.0")
        assert failed.returncode != 0
        assert "no section [1.2.0]" in failed.stderr


def _fake_gh(folder: Path) -> Path:
    """Write a gh that logs its arguments one a line, and knows the issues of the file `open`."""
    gh = folder / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >{folder}/arguments\n'
        f'[ "$1 $2" != "issue list" ] || cat {folder}/open\n'
    )
    gh.chmod(0o755)
    (folder / "open").touch()
    return folder / "arguments"


def test_github_gets_one_release_and_one_issue_about_news_of_clis(tmp_path: Path) -> None:
    _checkout(tmp_path, "Makefile", "scripts/cli-news-issue")
    arguments = _fake_gh(tmp_path)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "adsum-1.2.0.tar.gz").touch()
    news = tmp_path / ".rig" / "cli-news.md"
    news.parent.mkdir()

    assert _run(tmp_path, "make", "github-release", TAG="v1.2.0", PATH=path).returncode == 0
    release = arguments.read_text().splitlines()
    assert release[:4] == ["release", "create", "v1.2.0", "--verify-tag"]
    assert release[-2:] == [".rig/release-notes.md", "dist/adsum-1.2.0.tar.gz"]
    arguments.unlink()

    news.touch()
    assert _run(tmp_path, "make", "cli-news-issue", PATH=path).returncode == 0
    assert not arguments.exists()

    news.write_text("a new event\n")
    for issues, expected in (("", ["issue", "create"]), ("7\n", ["issue", "edit", "7"])):
        (tmp_path / "open").write_text(issues)
        assert _run(tmp_path, "make", "cli-news-issue", PATH=path).returncode == 0
        words = arguments.read_text().splitlines()
        assert words[: len(expected)] == expected
        assert words[-2:] == ["--body-file", ".rig/cli-news.md"]


def test_dependabot_looks_at_folders_that_exist_once_a_week() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    for update in updates:
        assert update["schedule"] == {"interval": "weekly"}
        assert len(update["groups"]) == 1
        for folder in update.get("directories", [update.get("directory")]):
            assert (ROOT / folder.removeprefix("/")).is_dir()

    assert {"github-actions", "pip", "docker"} <= {each["package-ecosystem"] for each in updates}


def test_the_audit_looks_at_every_lock_and_runs_nothing_that_can_change_under_its_name() -> None:
    (job,) = WORKFLOWS["audit"]["jobs"].values()
    script = next(step["run"] for step in job["steps"] if "run" in step)

    assert "for lock in requirements*.lock" in script
    assert re.search(r"pip-audit==[\d.]+ pip-audit .*--require-hashes", script)
