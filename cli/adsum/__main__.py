"""Entry point. Answers --version before anything heavy is imported."""

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from adsum.build import version_line

        print(version_line())  # noqa: T201 - the command line speaks here
        return
    from adsum.app import run

    sys.exit(run())


if __name__ == "__main__":
    main()
