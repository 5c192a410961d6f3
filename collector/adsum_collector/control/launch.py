"""Becomes the program that a file names, with its words and environment, which no command line shows.

Run as `python -I -S launch.py FILE` within tmux; FILE is removed first, as it may hold a key.
"""

import json
import os
import sys

#: Of tmux's own, which says where the terminal is.
TERMINAL = ("TMUX", "TMUX_PANE", "TERM", "COLORTERM")


def main(file: str) -> None:
    with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - pathlib takes longer than all of this
        told = json.load(opened)
    os.unlink(file)  # noqa: PTH108 - as above
    os.chdir(told["cwd"])
    env = told["env"] | {name: os.environ[name] for name in TERMINAL if name in os.environ}
    os.execve(told["words"][0], told["words"], env)  # noqa: S606 - no shell shall read its words


if __name__ == "__main__":
    main(sys.argv[1])
