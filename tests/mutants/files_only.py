"""What agents rest on that are known from their files alone, each taken out."""

from __future__ import annotations

from tests.mutants.runner import Edit, Mutant

_AGENTS = "collector/adsum_collector/agents"
_RUNNERS = f"{_AGENTS}/programs.py"
_OPENCODE = "tests/unit/collector/test_opencode.py"
_FOUND = "tests/unit/collector/test_programs.py"

MUTANTS = (
    Mutant(
        "lets the reader of OpenCode's database write its shared index",
        "what is its owner's changes because it was looked at",
        (Edit(f"{_AGENTS}/opencode/agent.py", "mode=ro&readonly_shm=1", "mode=ro"),),
        (f"{_OPENCODE}::test_one_that_another_process_has_open_is_read_without_a_trace",),
    ),
    Mutant(
        "counts what a fork of OpenCode's copies",
        "each fork doubles the tokens and the dollars of what was said before it",
        (Edit(f"{_AGENTS}/opencode/agent.py", "WHERE at >= s.time_created AND", "WHERE"),),
        (f"{_OPENCODE}::test_what_a_fork_repeats_counts_once_where_it_was_said",),
    ),
    Mutant(
        "counts only the messages that OpenCode still holds",
        "what was paid for is in no sum once it is undone",
        (
            Edit(
                f"{_AGENTS}/opencode/agent.py",
                "type GLOB 'message.updated.*'",
                "type = ''",
            ),
        ),
        (f"{_OPENCODE}::test_what_an_undo_takes_back_stays_counted_as_it_was_last",),
    ),
    Mutant(
        "gives a session that is over to the next process in its directory",
        "what has ended is shown as if it lived",
        (Edit(_RUNNERS, " or place.at <= self._over.get(session, 0)", ""),),
        (f"{_FOUND}::test_one_that_is_over_is_nobody_elses_until_it_is_heard_again",),
    ),
    Mutant(
        "takes a process and the one it starts for two",
        "no session of an agent that starts itself anew has a process, so no end of it is told",
        (Edit(_RUNNERS, "and runner.parent not in running", ""),),
        (f"{_FOUND}::test_of_one_that_starts_itself_anew_it_is_the_first",),
    ),
    Mutant(
        "looks for processes of an agent that is not on the machine",
        "every process is read every second, for nothing",
        (
            Edit(
                _RUNNERS,
                "if any(directory.is_dir() for directory in self._directories):",
                "if True:",
            ),
        ),
        (f"{_FOUND}::test_nobody_is_looked_for_where_the_agent_is_not",),
    ),
    Mutant(
        "takes a call that Esc has cancelled for work",
        "an interrupted session of Gemini CLI looks as if it went on",
        (
            Edit(
                f"{_AGENTS}/gemini/agent.py",
                ' or (status == "cancelled" and self.chat.over)',
                "",
            ),
        ),
        ("tests/unit/collector/test_gemini.py::test_what_is_cancelled_after_esc_is_no_work",),
    ),
    Mutant(
        "misses the hooks of an agent that has none",
        "each of its sessions is called broken",
        (
            Edit(
                "hub/adsum_hub/views.py",
                "None if facts.agent in place.unhooked else verdict.hooks",
                "verdict.hooks",
            ),
        ),
        ("tests/unit/hub/test_views.py::test_nobody_misses_the_hooks_of_an_agent_that_has_none",),
    ),
)
