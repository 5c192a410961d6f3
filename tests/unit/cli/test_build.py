"""Commit and date of a build: from the file in a wheel, from git in a checkout, or left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from adsum import build
from adsum.build import Build, build_of, git_build, version_line
from adsum_shared import __version__

#: Half past two in the morning at UTC+9, which is the day before in UTC.
DATE = "2026-11-28T02:30:00+09:00"


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.net", "-c", "commit.gpgsign=false"]
    env = {"GIT_COMMITTER_DATE": DATE, "GIT_AUTHOR_DATE": DATE, "PATH": "/usr/bin:/bin"}
    return subprocess.check_output(["git", *who, "-C", str(folder), *words], text=True, env=env)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "cli" / "adsum").mkdir(parents=True)
    (tmp_path / "file").write_text("one")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "One")
    git(tmp_path, "tag", "-a", "v9", "-m", "A tag is no commit's name")
    return tmp_path


def test_a_checkout_names_its_commit_and_the_commits_day_in_utc(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "--short=12", "HEAD").strip()

    assert build_of(checkout / "cli" / "adsum") == Build(commit, "2026-11-27")


def test_a_tracked_file_that_differs_is_reported_and_an_untracked_one_is_not(
    checkout: Path,
) -> None:
    (checkout / "other").write_text("new")
    clean = git_build(checkout)
    (checkout / "file").write_text("two")
    modified = git_build(checkout)

    assert clean is not None
    assert modified == Build(f"{clean.commit}-modified", clean.date)


def test_the_file_of_a_wheel_counts_before_git(checkout: Path) -> None:
    package = checkout / "cli" / "adsum"
    (package / "build.json").write_text('{"commit": "abc", "date": "2026-01-02"}')

    assert build_of(package) == Build("abc", "2026-01-02")


def test_a_repository_further_up_is_not_asked(checkout: Path) -> None:
    assert git_build(checkout / "cli") is None


def test_a_checkout_without_git_or_commit_names_none(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path_factory.mktemp("empty")
    git(empty, "init", "--quiet")
    monkeypatch.setenv("PATH", str(empty))

    assert git_build(checkout) is None
    monkeypatch.undo()
    assert git_build(empty) is None


def test_the_version_line_leaves_out_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build_of", lambda _package: Build("abc", "2026-01-02"))
    assert version_line() == f"adsum {__version__} (abc, 2026-01-02)"
    monkeypatch.setattr(build, "build_of", lambda _package: None)
    assert version_line() == f"adsum {__version__}"
