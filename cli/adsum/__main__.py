"""Entry point. Answers --version before anything heavy is imported."""

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from adsum_shared import __version__

        print(f"adsum {__version__}")  # noqa: T201 - the command line speaks here
        return
    from adsum.app import run

    sys.exit(run())


if __name__ == "__main__":
    main()
