"""Rules: which permissions this machine decides by itself, as its owner wrote down in `config.toml`.

`[control]` there is the owner's own: no hub writes it. A rule decides what a person could decide by one
click and nothing more: it allows a tool once, or denies it. Whatever is doubtful is no rule's: the
request waits for a person.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Collection
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from platformdirs import user_config_path

from adsum_collector.agents.base import Asked
from adsum_shared.settings import ConfigError, EntryError, read_entry
from adsum_shared.signals import ToolRole

#: Placeholder for an unknown path. It cannot be a real path.
UNKNOWN: Final = "\0"
MOST_RULES: Final = 100
MOST_NAME: Final = 60
MOST_BYTES: Final = 1 << 20
#: What runs with these roles is told by a subject, and cannot be judged without one.
SUBJECTED: Final = frozenset[ToolRole | None](("shell", "edit", "write", "read", "fetch"))
FILES: Final = frozenset[ToolRole | None](("edit", "write", "read"))
_NAME: Final = re.compile(rf"[\w][\w .-]{{0,{MOST_NAME - 1}}}")
_BETWEEN: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_WILD: Final = re.compile(r"[*?\[]")
#: A segment `..` of a path or an address, which leads out of the directory that a pattern names.
_PARENT: Final = re.compile(r"(?:\.|%2e){2}(?![\w.-])", re.IGNORECASE)
#: Programs that run another program or write a file where an argument says so. A pattern that ends in
#: `*` allows that as well.
LAUNCHERS: Final = re.compile(
    r"(?:ba|da|fi|z)?sh|[gm]?awk|python[\d.]*|cargo|docker|env|find|git|make|nice|node|np[mx]|perl|rsync|ruby"
    r"|sed|ssh|sudo|tar|tee|timeout|uvx?|xargs"
)
#: Of a command of which nothing can be meant but the words that it shows: no list, pipe, redirection,
#: substitution, variable, pattern, escape, comment or second line. In quotes too, where some of them
#: still count: to tell which would be to read as a shell does.
_PLAIN: Final = re.compile(r"""[A-Za-z0-9 _./:=@%+,'"-]+""")


class PolicyRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """tool: its name, or a role such as `shell`, the same for every agent.

    pattern: of the whole command, path or address; `*` stands for anything. directory: in which the
    session works, and below which its file lies. between: of the day, such as 08:00-18:00, by this
    machine's clock. dry_run: it is tried, and noted in the trail, and decides nothing.
    """

    name: str
    decision: Literal["allow", "deny"]
    tool: str | None = None
    pattern: str | None = None
    directory: str | None = None
    tag: str | None = None
    between: str | None = None
    reason: str | None = None
    dry_run: bool = True


#: Minutes; 0: never.
Rest = Annotated[float, msgspec.Meta(ge=0, le=7 * 24 * 60)]


class Tag(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """directories: below which sessions bear it; none: all sessions of this machine do.

    suspend_after_min: of rest, in place of the machine's own.
    """

    name: str
    directories: tuple[str, ...] = ()
    suspend_after_min: Rest | None = None


class Matter(NamedTuple):
    """What a rule is held against. real: a path with its links followed. minute: of the day.

    places: where else the session has worked, and where its file lies.
    """

    asked: Asked
    minute: int
    real: Callable[[str], str] = os.path.realpath
    places: Collection[str] = ()


class Ruling(NamedTuple):
    """rule: the first that decides, if one does. tried: those before it that would have, dry."""

    rule: PolicyRule | None = None
    tried: tuple[PolicyRule, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """two_persons: tags of sessions where what allows something takes two.

    suspend_after_min: of rest, after which a session is suspended by itself.
    fault: why it cannot be read; nothing is allowed then, since what it would forbid is not known.
    """

    rules: tuple[PolicyRule, ...] = ()
    tags: tuple[Tag, ...] = ()
    two_persons: tuple[str, ...] = ()
    suspend_after_min: float = 0
    fault: str | None = None

    def persons(self, *places: str) -> int:
        """How many must agree before something is allowed there; the strictest place counts.

        It blocks where links are followed.
        """
        if not self.two_persons:
            return 1
        # what is no path lies nowhere, so who decides there is not known
        strict = any("\0" in it or self.tags_at(it) & set(self.two_persons) for it in places)
        return 2 if strict else 1

    def rest_ms(self, cwd: str) -> int | None:
        """After how long a rest a session there is suspended by itself; None: never.

        Of several tags the shortest counts, and a never before all.
        """
        tags = self.tags_at(cwd)
        told = [
            tag.suspend_after_min
            for tag in self.tags
            if tag.name in tags and tag.suspend_after_min is not None
        ]
        return round(min(told or [self.suspend_after_min]) * 60_000) or None

    def tags_at(self, cwd: str, real: Callable[[str], str] = os.path.realpath) -> set[str]:
        return {
            tag.name
            for tag in self.tags
            if not tag.directories or any(_below(cwd, each, real) for each in tag.directories)
        }

    def judge(self, matter: Matter) -> Ruling:
        """The first rule that fits decides; none, where only a person may, or of an odd input."""
        try:
            return self._judged(matter)
        except ValueError:  # a NUL in a path, say
            return Ruling()  # the rule that could not be held against it may be one that denies

    def _judged(self, matter: Matter) -> Ruling:
        asked = matter.asked
        if asked.role is None or "\0" in asked.cwd:
            return Ruling()
        tags = self.tags_at(asked.cwd, matter.real)
        may = {"deny"} & set(asked.verbs)
        if "allow" in asked.verbs and self.persons(asked.cwd, *matter.places) == 1:
            may.add("allow")
        tried: list[PolicyRule] = []
        for rule in self.rules:
            if rule.decision not in may or not _fits(rule, matter, tags):
                continue
            if not rule.dry_run:
                return Ruling(rule, tuple(tried))
            tried.append(rule)
        return Ruling(None, tuple(tried))


def _fits(rule: PolicyRule, matter: Matter, tags: set[str]) -> bool:
    asked = matter.asked
    if rule.tool not in (None, asked.tool, asked.role) or (rule.tag and rule.tag not in tags):
        return False
    if rule.between and not _within(rule.between, matter.minute):
        return False
    return _forbids(rule, matter) if rule.decision == "deny" else _permits(rule, matter)


def _forbids(rule: PolicyRule, matter: Matter) -> bool:
    """Read generously: a rule after it may allow what it does not see."""
    asked, text = matter.asked, matter.asked.subject
    said = {text} if text is not None else set()
    if text is not None and asked.role in FILES:
        path = os.path.join(asked.cwd, text)  # noqa: PTH118 - as it is written
        said |= {os.path.normpath(path), matter.real(path)}
    elif text is not None and asked.role == "shell":
        said.add(" ".join(words_of(text) or text.split()))
    places = [asked.cwd, *(said if asked.role in FILES else ())]
    if rule.directory and not any(_below(each, rule.directory, matter.real) for each in places):
        return False
    pattern = rule.pattern and (_path(rule.pattern) if asked.role in FILES else rule.pattern)
    return not pattern or any(fnmatch.fnmatchcase(each, pattern) for each in said)


def _permits(rule: PolicyRule, matter: Matter) -> bool:
    """Read narrowly: of a shell a command that is no more than it shows, of files their real path."""
    asked, text = matter.asked, matter.asked.subject
    if rule.directory and not _below(asked.cwd, rule.directory, matter.real):
        return False
    if asked.role not in SUBJECTED:
        return rule.pattern is None
    if text is None:
        return False
    if asked.role == "shell":
        return rule.pattern is not None and _same_command(rule.pattern, text)
    if asked.role == "fetch":
        return rule.pattern is not None and _same_address(rule.pattern, text)
    return _same_file(rule, text, matter)


def file_of(asked: Asked, role: ToolRole | None) -> str:
    """Return the path that a file tool is to be applied to, UNKNOWN if nobody knows; the cwd for others."""
    if role not in FILES:
        return asked.cwd
    return UNKNOWN if asked.subject is None else os.path.join(asked.cwd, asked.subject)  # noqa: PTH118 - as it is written


def words_of(command: str) -> list[str] | None:
    """The words of a command of which nothing is doubtful; None of any other."""
    if not _PLAIN.fullmatch(command):
        return None
    try:
        return shlex.split(command)
    except ValueError:  # a quote that is not closed
        return None


def _same_command(pattern: str, command: str) -> bool:
    """Word by word; a last `*` stands for any that follow. Without a `*`: the very same text."""
    if not _WILD.search(pattern):
        return pattern == command
    words, wanted = words_of(command), pattern.split(" ")
    if not words or _WILD.search(wanted[0]):
        return False
    if wanted[-1] == "*" and len(words) >= len(wanted) - 1:
        wanted[-1:] = ["*"] * (len(words) - len(wanted) + 1)
    return len(words) == len(wanted) and all(map(_same_word, words, wanted))


def _same_word(word: str, wanted: str) -> bool:
    """Return whether a word fits; one with a `..` segment fits no wildcard."""
    return word == wanted or (not _PARENT.search(word) and fnmatch.fnmatchcase(word, wanted))


def launches(rule: PolicyRule) -> str | None:
    """Return the program of an allowing rule that can run others by its arguments, if it is one."""
    words = (rule.pattern or "").split(" ")
    program = PurePath(words[0]).name
    open_end = rule.decision == "allow" and any(map(_WILD.search, words[1:]))
    return program if open_end and LAUNCHERS.fullmatch(program) else None


def _same_address(pattern: str, text: str) -> bool:
    """A `*` in the host's name does not reach into the path, nor one in the path into the host."""
    try:
        found, wanted = urlsplit(text), urlsplit(pattern)
    except ValueError:
        return False
    if not found.netloc or not wanted.netloc:
        return False  # such as file:///x: nothing would part its host from its path
    if not text.isprintable() or set(text) & set(" \\") or "@" in found.netloc:
        return False
    rest, rest_wanted = text.partition(found.netloc)[2], pattern.partition(wanted.netloc)[2]
    return (
        found.scheme == wanted.scheme
        and fnmatch.fnmatchcase(found.netloc.lower(), wanted.netloc.lower())
        and _same_word(rest, rest_wanted)
    )


def _same_file(rule: PolicyRule, text: str, matter: Matter) -> bool:
    """Both the path as it is written and what it leads to.

    What is hidden is meant by name alone: such files tell an agent, git or a shell what to run.
    """
    if rule.pattern is None and rule.directory is None:
        return False
    path = os.path.join(matter.asked.cwd, text)  # noqa: PTH118 - as it is written
    if not path.isprintable() or os.path.normpath(path) != path:
        return False
    known = set(PurePath(_path(rule.pattern or "")).parts)
    known |= set(PurePath(_path(rule.directory or "")).parts)
    for each in (path, matter.real(path)):
        hidden = {part for part in PurePath(each).parts if part.startswith(".")}
        if hidden - known:
            return False
        if rule.pattern and not fnmatch.fnmatchcase(each, _path(rule.pattern)):
            return False
    return not rule.directory or _below(path, rule.directory, matter.real)


def _path(text: str) -> str:
    return os.path.expanduser(text)  # noqa: PTH111 - a pattern is no path


def _below(path: str, directory: str, real: Callable[[str], str]) -> bool:
    try:
        inside, outside = PurePath(real(path)), PurePath(real(_path(directory)))
    except ValueError:  # a NUL in it: no path at all
        return False
    return os.path.isabs(path) and inside.is_relative_to(outside)  # noqa: PTH117 - it is a string


def _within(between: str, minute: int) -> bool:
    """Such as 22:00-06:00 goes over midnight."""
    found = _BETWEEN.fullmatch(between)
    assert found is not None  # noqa: S101 - so it was read
    start, end = (int(found[n]) * 60 + int(found[n + 1]) for n in (1, 3))
    return start <= minute < end if start <= end else not end <= minute < start


def policy_file() -> Path:
    return user_config_path("adsum") / "config.toml"


def read_policy(file: Path) -> Policy:
    """Raises ConfigError: an entry, its cause and the next step. No file, no rules."""
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            table = tomllib.loads(opened.read(MOST_BYTES).decode()).get("control")
    except FileNotFoundError:
        return Policy()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: it cannot be read ({error}). Correct it.") from error
    if table is None:
        return Policy()
    if found.st_mode & 0o022 or found.st_uid not in (os.getuid(), 0):
        cause = "others than you may write it, so nothing that [control] in it says counts"
        raise ConfigError(f"{file}: {cause}. Run: chmod go-w {file}")
    return policy_of(file, table)


class _ControlTable(msgspec.Struct, forbid_unknown_fields=True):
    rule: tuple[dict[str, Any], ...] = ()
    tag: tuple[Tag, ...] = ()
    two_persons: tuple[str, ...] = ()
    suspend_after_min: Rest = 0


def policy_of(file: Path, table: Any) -> Policy:
    """Raises ConfigError."""
    whole = read_entry(f"{file}, [control]", table, _ControlTable)
    tags = {tag.name for tag in whole.tag}
    rules: list[PolicyRule] = []
    for number, raw in enumerate(whole.rule, 1):
        named = raw.get("name")
        where = f"{file}, [[control.rule]] {number}"
        where += f" ({named[:MOST_NAME]})" if isinstance(named, str) and named.isprintable() else ""
        rule = read_entry(where, raw, PolicyRule)
        _require_sound(where, rule, tags)
        if rule.name in (each.name for each in rules):
            raise EntryError(where, "another rule has this name", "Give each its own.")
        rules.append(rule)
    if len(rules) > MOST_RULES:
        raise EntryError(f"{file}, [[control.rule]]", "there are too many", f"Keep {MOST_RULES}.")
    if odd := set(whole.two_persons) - tags:
        cause = f"`two_persons` names the tag {min(odd)[:MOST_NAME]!r}, which nothing bears"
        raise EntryError(f"{file}, [control]", cause, "Add it: [[control.tag]], with its name.")
    return Policy(tuple(rules), whole.tag, whole.two_persons, whole.suspend_after_min)


def _require_sound(where: str, rule: PolicyRule, tags: set[str]) -> None:
    """Raises EntryError."""

    def need(holds: object, cause: str, step: str) -> None:
        if not holds:
            raise EntryError(where, cause, step)

    plain = "Use letters, digits, spaces, dots and dashes, at most 60."
    need(_NAME.fullmatch(rule.name), "this is no name", plain)
    need(
        rule.tag is None or rule.tag in tags,
        f"nothing bears the tag {str(rule.tag)[:MOST_NAME]!r}",
        "Add it: [[control.tag]], with its name.",
    )
    between = rule.between is None or _BETWEEN.fullmatch(rule.between)
    need(between, "`between` is no time of day", "Write it as 08:00-18:00.")
    at = rule.directory is None or os.path.isabs(_path(rule.directory))  # noqa: PTH117 - as it is written
    need(at, "`directory` is not absolute", "Begin it with / or ~.")
    if rule.decision == "deny":
        some = rule.tool or rule.pattern or rule.directory or rule.tag
        need(some, "it would deny everything", "Add `tool`, `pattern`, `directory` or `tag`.")
        return
    need(rule.tool, "it would allow every tool", "Add `tool`: a name, or a role such as `shell`.")
    need(rule.reason is None, "`reason` is for what is denied", "Take it out.")
    first = (rule.pattern or "").split(" ")[0]
    need(
        rule.pattern is None or not _WILD.search(first[:1]),
        "`pattern` begins with a wildcard, so it would allow anything",
        "Begin it with the program's name, a directory or an address.",
    )
    need(
        rule.tool not in SUBJECTED or rule.pattern or (rule.tool in FILES and rule.directory),
        f"it would allow every `{rule.tool}`",
        "Add `pattern`" + (", or `directory`." if rule.tool in FILES else "."),
    )
    whole_word = rule.tool != "shell" or not _WILD.search(first)
    step = "Begin it with the program's whole name, such as `make *`."
    need(whole_word, "`pattern` leaves open which program runs", step)


class LivePolicy:
    """As the file says at the moment: rules come and go without a restart."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._stamp: tuple[int, int, int, int] | None = None
        self._policy = Policy()

    @property
    def current(self) -> Policy:
        try:
            found = self.file.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode)
        except OSError:
            stamp = (0, 0, 0, 0)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._policy = read_policy(self.file)
            except ConfigError as error:
                self._policy = Policy(fault=str(error))
        return self._policy
