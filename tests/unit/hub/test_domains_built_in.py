"""The domains that come with Adsum: what they say of a session, and where they hold their tongue."""

from __future__ import annotations

import pytest

from adsum_hub.domains.built_in import creative, research, sdlc
from adsum_shared.state import GROUP_OF, ChildView, Chip, SessionView
from tests.domains import done, failed, running, shell, view

PR = "https://github.com/o/r/pull/12"
FAILED = "Exit code 1"


def label(session: SessionView, domain=sdlc) -> str | None:
    display = domain(session)
    return display.label if display is not None else None


def chips(session: SessionView) -> list[str]:
    display = sdlc(session)
    return [chip.text for chip in display.chips] if display is not None else []


# sdlc: what is under way.


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pytest -q", "Running tests"),
        ("cd api && uv run pytest -x 2>&1 | tail -5", "Running tests"),
        ("CI=1 npm run test:unit", "Running tests"),
        ("make test ARGS=-x", "Running tests"),
        ("python3 -m unittest", "Running tests"),
        ("ruff check .", "Checking the code"),
        ("npm run build", "Building"),
        ("git commit -m 'Add login'", "Committing to feature/auth"),
        ("git add -A && git commit -m \"$(cat <<'EOF'", "Committing to feature/auth"),
        ("git commit -m x && git push", "Committing to feature/auth"),
        ("git push -u origin feature/auth", "Pushing feature/auth"),
        ("git rebase main", "Rebasing feature/auth"),
        ("git -c core.editor=true rebase --continue", "Rebasing feature/auth"),
        ("git pull --rebase", "Rebasing feature/auth"),
        ("git merge main", "Merging into feature/auth"),
        ("gh pr create --fill", "Opening a pull request"),
        ("gh pr diff 12", "Reviewing a pull request"),
    ],
)
def test_a_running_command_is_named_for_what_it_is(command, said):
    assert label(running(command)) == said


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "echo pytest",
        "grep -rn 'git commit' docs",
        "cat test.py",
        "pytest --help",
        "pytest --collect-only",
        "git rebase --abort",
        "git push --dry-run",
        "git log",
        "git committed",
        "gh pr create --web",
        "pip install pytest",
        "npm run build && npm test",  # which of them runs?
        "latest-tests",
        "npm run test-data-download",
        "",
    ],
)
def test_any_other_command_keeps_the_cores_label(command):
    assert label(running(command)) is None


def test_a_file_called_like_a_command_is_none():
    assert label(running("pytest", tool="Read")) is None


@pytest.mark.parametrize("branch", [None, "HEAD"])
def test_no_branch_is_named_where_there_is_none(branch):
    assert label(running("git commit -m x", branch=branch)) == "Committing"
    assert label(running("git rebase main", branch=branch)) == "Rebasing"
    assert label(shell("git commit -m x", branch=branch)) == "Committed"


def test_no_branch_is_named_for_work_in_another_directory_or_on_another_branch():
    assert label(running("cd ../other && git commit -m x")) == "Committing"
    assert label(shell("git -C ../other commit -m x")) == "Committed"
    assert label(shell("git commit -m x", "git checkout main")) == "Committed"
    assert label(shell("git checkout -b new", "git commit -m x")) == "Committed"


def test_a_branch_of_any_length_and_kind_makes_a_label_that_holds():
    said = label(running("git push", branch="x\u202e\n" * 400))

    assert said is not None
    assert said.isprintable()
    assert len(said) <= 80


# sdlc: what has been done.


@pytest.mark.parametrize("state", ["idle", "task_complete"])
def test_a_commit_of_the_turn_is_told_at_its_end(state):
    session = done(("Edit", "auth.py"), ("Bash", "git commit -m x"), ("Read", "b.py"), state=state)

    assert label(session) == "Committed to feature/auth"


def test_a_commit_is_told_that_nothing_on_its_line_could_hide():
    for command in (
        "git add -A; git commit -m x",
        "test -f a || touch a && git commit -m x",
        "git commit -m 'a; b || c' && git push 2>&1 | tail -3",
        "git commit -m x # and then; that was it",
    ):
        assert label(shell(command)) == "Committed to feature/auth"


def test_a_long_message_does_not_hide_a_commit():
    assert label(shell("git add -A && git commit -m \"$(cat <<'EOF'")) is not None
    assert label(shell('git commit -m "' + "word " * 28 + "…")) is not None


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m x || true",
        "git commit -m x; git status",
        "git commit -m x | tail -3",
        "git diff --quiet || git commit -m x",
        "git commit -m x &",
        "git commit -m x && git status; git log",
        "git commit -m x && npm test || true",
        "git commit --dry-run",
        "git commit -m x && make release VERSION=1.2.3 NOTES=CHANGES.md CHANNEL=…",
        "(git commit -m x; true)",
        'echo "git commit"',
        "# git commit -m x",
    ],
)
def test_a_commit_that_may_have_failed_is_not_told(command):
    assert label(shell(command)) is None


def test_a_commit_that_failed_or_was_undone_is_not_told():
    assert label(done(("Bash", "git commit -m x", FAILED))) is None
    assert label(shell("git commit -m x", "git reset --soft HEAD~1")) is None


def test_a_pull_request_is_told_with_its_number_once():
    session = shell("git commit -m x", "git push", "gh pr create --fill", pr=PR)

    assert label(session) == "PR #12 opened"
    assert chips(session) == []


def test_a_pull_request_without_an_address_has_no_number():
    assert label(shell("gh pr create --fill")) == "Pull request opened"
    assert label(shell("gh pr create --fill", pr="javascript:alert(1)")) == "Pull request opened"


def test_a_later_commit_comes_before_an_older_pull_request():
    session = shell("gh pr create --fill", "git commit -m more", pr=PR)

    assert label(session) == "Committed to feature/auth"
    assert chips(session) == ["PR #12"]


def test_a_pull_request_shows_as_a_chip_in_any_state():
    for state in GROUP_OF:
        assert chips(view(state, pr=PR)) == ["PR #12"]
    assert chips(view(pr="https://gitlab.com/g/p/-/merge_requests/7")) == ["PR #7"]


# sdlc: tests.


@pytest.mark.parametrize("state", ["retrying", "error"])
@pytest.mark.parametrize("error", ["Exit code 1", "Exit code 101", "Exit code 1 3 failed"])
def test_failing_tests_are_told_while_the_agent_deals_with_them(state, error):
    for command in ("pytest", "cd api && pytest -q", "npm run build; pytest 2>&1"):
        assert label(failed(command, error, state)) == "Tests failing"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("pytest -q", "Exit code 127"),  # not found
        ("pytest -q", "Exit code 124"),  # out of time
        ("pytest -q", "Exit code 2"),  # interrupted, or wrong use
        ("pytest -q", "Exit code 10"),
        ("pytest -q", "The user doesn't want to proceed"),
        ("pytest -q", ""),
        ("make test", "Exit code 2"),
        ("npm run build && pytest", "Exit code 1"),  # whose failure?
        ("pytest && ruff check", "Exit code 1"),
        ("pytest | grep FAILED", "Exit code 1"),
        ("npm run build && cat input | pytest", "Exit code 1"),
        ("pytest;", "Exit code 1"),
        ("false", "Exit code 1"),
    ],
)
def test_a_failure_that_may_be_no_tests_keeps_the_cores_label(command, error):
    assert label(failed(command, error)) is None


def test_tests_left_failing_at_the_turns_end_are_told():
    left = ("Bash", "pytest -q", FAILED)

    assert label(done(left)) == "Tests failing"
    assert label(done(left, ("Bash", "git commit -m wip"))) == "Committed to feature/auth"
    assert chips(done(left, ("Bash", "git commit -m wip"))) == ["Tests failing"]


def test_tests_that_were_run_again_or_worked_on_since_are_not_told_as_failing():
    left = ("Bash", "pytest -q", FAILED)

    assert label(done(left, ("Bash", "pytest -q"))) is None
    assert label(done(left, ("Edit", "auth.py"))) is None


def test_that_tests_pass_is_never_told():
    """An exit of 0 is a pipe's, or that of a selection of three tests."""
    assert sdlc(shell("pytest -q | tail -3")) is None


# sdlc: phases.


def test_a_rebase_that_stopped_is_told():
    assert label(failed("git rebase main", FAILED)) == "Rebase stopped"
    assert label(failed("git merge main", FAILED, "retrying")) == "Merge stopped"
    assert label(failed("git rebase main", "Exit code 128")) is None


def child(kind: str, status: str = "running") -> ChildView:
    return ChildView("c", "agent", status, type=kind)


def test_reviewers_at_work_are_a_review():
    for state in ("delegating", "waiting_for_agent"):
        assert label(view(state, children=(child("code-reviewer"),))) == "Reviewing the changes"
    both = (child("code-reviewer"), child("Explore"))
    assert label(view("delegating", children=both)) is None
    assert label(view("delegating", children=(child("code-reviewer", "completed"),))) is None
    assert label(view("delegating")) is None


# All of them.


@pytest.mark.parametrize("domain", [sdlc, creative, research])
@pytest.mark.parametrize("state", [*GROUP_OF, "something_new"])
def test_what_a_human_must_decide_on_and_what_is_unknown_keeps_its_words(domain, state):
    """Whoever is asked to allow a command reads of that command, and not what it may be about."""
    assert label(view(state), domain) in {
        None,
        "Outline ready for feedback",
        "Research plan ready for review",
    }
    asked = view("needs_permission", {"tool": "Bash", "summary": "git push --force"})
    assert label(asked, domain) is None


@pytest.mark.parametrize("domain", [sdlc, creative, research])
@pytest.mark.parametrize(
    "context",
    [
        {"tool": 7, "summary": ["pytest"]},
        {"tool": "Bash", "summary": None, "error": {}},
        {"tools_used": "git commit"},
        {"tools_used": ["git commit", None, {"tool": None}, {"tool": "Bash", "summary": 1}]},
        {},
    ],
)
def test_a_context_of_another_version_is_read_as_far_as_it_goes(domain, context):
    for state in ("acting", "error", "idle"):
        assert domain(view(state, context)) is None


def test_an_interrupted_turn_is_not_dressed_up():
    assert sdlc(view("idle", None)) is None


# creative.


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (running("chapter-3.md", "Write"), "Drafting chapter-3.md"),
        (running("chapter-3.md", "Edit"), "Revising chapter-3.md"),
        (running("pandoc book.md -o book.pdf"), "Exporting the draft"),
        (view("awaiting_approval"), "Outline ready for feedback"),
        (done(("Write", "poem.txt")), "Draft ready: poem.txt"),
        (done(("Write", "poem.txt"), ("Edit", "poem.txt")), "Revision ready: poem.txt"),
        (done(("Edit", "book.md"), ("Bash", "pandoc book.md -o b.pdf")), "Draft exported"),
    ],
)
def test_drafts_revisions_and_exports_are_named(session, said):
    assert label(session, creative) == said


@pytest.mark.parametrize(
    "session",
    [
        running("auth.py", "Write"),
        running("notes.md", "Read"),
        done(("Write", "poem.txt", "disk full")),
        done(("Bash", "pandoc a.md -o a.pdf", FAILED)),
        shell("pandoc a.md -o a.pdf || true"),
        done(("Edit", "auth.py")),
        view("thinking"),
    ],
)
def test_code_and_failures_are_no_creative_work(session):
    assert creative(session) is None


# research.


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (running("tides in 1850", "WebSearch"), "Searching: tides in 1850"),
        (running("https://example.org/a?b=c", "WebFetch"), "Reading example.org"),
        (running("http://[::1", "WebFetch"), "Reading a source"),
        (running("notes.md", "Read"), "Reading sources"),
        (running("report.md", "Write"), "Writing up report.md"),
        (view("awaiting_approval"), "Research plan ready for review"),
        (done(("WebSearch", "tides")), "Findings ready"),
        (done(("WebFetch", "https://a.org"), ("Write", "tides.md")), "Report ready: tides.md"),
    ],
)
def test_searches_sources_and_reports_are_named(session, said):
    assert label(session, research) == said


def test_without_a_search_there_are_no_findings():
    assert research(done(("Write", "tides.md"))) is None
    assert research(done(("WebSearch", "tides", "no network"))) is None


def test_the_tone_of_failing_tests_is_bad():
    display = sdlc(done(("Bash", "pytest", FAILED), ("Bash", "git commit -m x")))

    assert display is not None
    assert display.chips == (Chip("Tests failing", "bad"),)
