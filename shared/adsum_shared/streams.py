"""Spells every Redis key, its type and its lifetime. Nothing else in the project spells one.

The braces are a hash tag: all keys of one host share a cluster slot, so that one script may touch
them together.
"""

#: What all of them match.
ALL = "adsum:*"

#: What those of hosts begin with.
OF_HOSTS = "adsum:{"

#: set of host ids; a host leaves it when it is forgotten. Hubs enter the machines that have joined,
#: all others themselves
HOSTS = "adsum:hosts"


def inbox(host_id: str) -> str:
    """Stream of batches, one writer, id `<incarnation>-<last seq>`; trimmed with the snapshot."""
    return f"adsum:{{{host_id}}}:in"


def snapshot(host_id: str) -> str:
    """Hash of the host's folded facts, cursor and applied numbers; lives as long as the host."""
    return f"adsum:{{{host_id}}}:snap"


def stored(host_id: str) -> str:
    """Hash with CURSOR, APPLIED and RUNS of the snapshot, for logins that may not read sessions."""
    return f"adsum:{{{host_id}}}:stored"


def last(host_id: str) -> str:
    """Stream of one entry: id, spool and run of the newest in `inbox`, for logins that may not read that."""
    return f"adsum:{{{host_id}}}:last"


def draft(host_id: str, token: str) -> str:
    """Hash, a snapshot too big for one command in the making; expires by itself if left behind."""
    return f"adsum:{{{host_id}}}:draft:{token}"


def beat(host_id: str) -> str:
    """String, JSON heartbeat; expires after BEAT_TTL_MS."""
    return f"adsum:{{{host_id}}}:beat"


def want(host_id: str) -> str:
    """String `<spool_id>:<seq>`: a hub asks for a replay from seq; expires after WANT_TTL_MS."""
    return f"adsum:{{{host_id}}}:want"


def joining(host_id: str) -> str:
    """String: whoever has it is letting the host in just now; expires after JOINING_MS."""
    return f"adsum:{{{host_id}}}:joining"


def paused(host_id: str) -> str:
    """String: it filled Redis, so its user is gone; expires after PAUSED_MS."""
    return f"adsum:{{{host_id}}}:paused"


def cleared(host_id: str) -> str:
    """String `<ms> <text>`: when a hub deleted what filled Redis, and what it says; for other hubs."""
    return f"adsum:{{{host_id}}}:cleared"


def commands(host_id: str) -> str:
    """Stream of signed commands for the machine, see `commands`; hubs write, about MOST_COMMANDS kept."""
    return f"adsum:{{{host_id}}}:cmd"


def decided(host_id: str, request_id: str) -> str:
    """String, the id of the command that decided a request: the first wins; DECIDED_MS."""
    return f"adsum:{{{host_id}}}:decided:{request_id}"


#: Hash of the keys by which hubs sign commands, key id -> sealed JSON. Machines learn them from a hub.
COMMAND_KEYS = "adsum:command-keys"

#: Hash of the machines that have joined, host id -> sealed JSON with the SHA-256 of each one's secret;
#: a field lives until the machine leaves or is forgotten. And MACHINES_MARK, which nobody takes out:
#: where it is missing, Redis has lost them
MACHINES = "adsum:machines"
MACHINES_MARK = "mark"
#: Hash of the names that hosts were given here, host id -> label; as MACHINES
LABELS = "adsum:labels"
#: Set of host ids that no hub lists, whoever writes under them; an id leaves it by joining
FORGOTTEN = "adsum:forgotten"
#: Hash of what people dismissed or archived, `host id:session id` -> JSON of a Dismissal, at most
#: some thousand; a field lives until something happens in that session
DISMISSALS = "adsum:dismissals"


#: Hash of the browsers that asked for pushes, id -> JSON, at most some hundred; a field lives until
#: its browser, or the push service, ends it. It holds no secret of ours: the key that a push is
#: signed with is on the hubs' disks, and one without the other pushes nothing.
NOTIFY_SUBSCRIPTIONS = "adsum:notify:subscriptions"


def notify_mark(mark: str) -> str:
    """String: a hub's nonce for NOTIFY_CLAIM_MS, while it tells a case; then `told`, NOTIFY_KEEP_MS."""
    return f"adsum:notify:mark:{mark}"


def notify_rule(rule: str) -> str:
    """String, ms: since when there is such a rule; renewed by hubs, expires after NOTIFY_KEEP_MS."""
    return f"adsum:notify:rule:{rule}"


# Who may enter. Secrets lie here as SHA-256 alone, so none can be read back, and records are sealed with
# the hub's secret, which is not here. One hash tag, so that a pass and its list change together.


def login_code(digest: str) -> str:
    """String, JSON of a login link, or of its being used up; expires after LOGIN_CODE_KEEP_MS."""
    return f"adsum:{{auth}}:code:{digest}"


def entry_pass(kind: str, digest: str) -> str:
    """String, JSON of a browser's sign-in or of a token; expires when that does."""
    return f"adsum:{{auth}}:{kind}:{digest}"


def entry_passes(kind: str) -> str:
    """Sorted set of the digests of all of a kind, by when they end; expires after the longest."""
    return f"adsum:{{auth}}:{kind}s"


def login_tries(whose: str) -> str:
    """String, a number: logins, or joins, tried from an address, or from all; expires after LOGIN_TRIES_MS."""
    return f"adsum:{{auth}}:tries:{whose}"


def join_token(digest: str) -> str:
    """String, JSON of a join token, or of its being used; expires a day after it has ended."""
    return f"adsum:{{auth}}:join:{digest}"


#: Sorted set of the digests of all join tokens, by when they end; expires after the longest.
JOIN_TOKENS = "adsum:{auth}:joins"
#: String, sealed JSON: a hub whose secret did not seal it does not start
SECRET_PROBE = "adsum:{auth}:probe"  # noqa: S105 - a key of Redis
#: Hash, digest of a revoked credential -> sealed JSON of a Revocation, until it would have ended
REVOKED = "adsum:{auth}:revoked"


def rules_channel(digest: str) -> str:
    """A channel that nobody uses: in the rights of a machine's user it says by which rules that was made."""
    return f"adsum:rules:{digest}"


def host_of(inbox_key: str) -> str:
    """The inverse of `inbox`."""
    return inbox_key[len("adsum:{") : -len("}:in")]


BEAT_INTERVAL_MS = 2_000
BEAT_TTL_MS = 10_000
WANT_TTL_MS = 2_000
#: Longer than letting a machine in takes.
JOINING_MS = 10_000
#: None is obeyed later than its own time allows, so a stream need not reach far back.
MOST_COMMANDS = 1_000
#: Longer than any request is held open.
DECIDED_MS = 25 * 3_600_000
#: Whoever fills Redis in a second is kept from it for six hundred.
PAUSED_MS = 600_000
#: Longer than it takes to tell of a case; and than anything that stands so long is told of.
NOTIFY_CLAIM_MS = 60_000
NOTIFY_KEEP_MS = 8 * 24 * 3_600_000

#: A login link is good for so long; that it was one is known for longer, to say what became of it.
LOGIN_CODE_MS = 10 * 60_000
LOGIN_CODE_KEEP_MS = 24 * 3_600_000
LOGIN_TRIES_MS = 60_000
#: No sign-in and no token lives longer.
ENTRY_PASS_MOST_MS = 366 * 24 * 3_600_000
#: That a join token was one is known for longer than it is good, to say what became of it.
JOIN_TOKEN_KEEP_MS = 24 * 3_600_000
JOIN_TOKEN_MOST_MS = 31 * 24 * 3_600_000

#: Beyond this either half of an entry's id is poison: nobody could write after it for long, and
#: numbers of scripts and browsers end here. A hub deletes such a stream; a collector that meets a
#: head like it waits for that, and goes on below.
MOST_ID = 2**53 - 1

#: What this version writes into SCHEMA. A snapshot with a higher one is read, never written.
SCHEMA_NUMBER = 1

# Fields of a snapshot hash; a session's facts lie under SESSION + session id, and under ASIDE +
# session id what lay there before and could not be read.
VERSION = "v"
SCHEMA = "schema"
CURSOR = "cur"
APPLIED = "applied"
RUNS = "runs"
HOST = "host"
SESSION = "s:"
ASIDE = "x:"
