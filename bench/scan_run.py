"""Adsum's scan of a directory of transcripts, alone or with a second process, as JSON of its sums.

    python -m bench.scan_run DIRECTORY [1 | 2 | LEDGER [sums]]

Both take files from one queue, a pipe of their numbers. The second hands its records over as it
goes; the first, which adds everything up, takes them in between two files of its own. With the
path of a directory it is one process as it is installed: with a ledger there, on the disk, and,
unless only the sums are asked for, with what each session was about.
"""

from __future__ import annotations

import gc
import os
import sys

gc.disable()  # as the worker does
SECOND = "from bench.scan_files import second; second({root!r}, {queue})"


def main(root: str, processes: str = "1", only: str = "") -> None:
    if processes not in {"1", "2"}:
        from bench.scan_files import as_installed

        as_installed(root, processes, pasts=only != "sums")
        return
    queue, fill = os.pipe()
    inbox = None
    if processes == "2":
        inbox, out = os.pipe()
        for descriptor in (queue, out):
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes nothing by name
        # Before anything is imported: that, both can do at once.
        command = [sys.executable, "-c", SECOND.format(root=root, queue=queue)]
        actions = [(os.POSIX_SPAWN_DUP2, out, 1)]
        os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
        os.close(out)
    from bench.scan_files import first

    first(root, queue, fill, inbox)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # whoever starts a worker ends it as soon as it has said all
