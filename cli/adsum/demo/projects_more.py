"""Further projects of the demo: a game, a pipeline, firmware, and two that are no software."""

from __future__ import annotations

from adsum.demo.jobs import FURTHER
from adsum.demo.projects import CODE, Job, Project, Question

OTHERS = (
    Project(
        "orchard-pipeline",
        ("feature/late-events", "data/backfill-moisture"),
        ("jobs/harvest.py", "jobs/dedupe.sql", "tests/test_harvest.py", "jobs/schema.py"),
        "pytest -q tests --maxfail=5",
        "make backfill-dry-run",
        (
            Job(
                "Accept events that are a day late",
                "Sensors in the far field report a day late. Accept them without counting twice",
                "Late events are merged by id within 36 hours. Yesterday's counts match to the last one.",
                ("Measure lateness", "Merge by id", "Backfill one week"),
            ),
            Job(
                "Backfill the moisture table",
                "Backfill soil moisture from March on, in batches that do not slow the readers",
                "41 million rows in 26 batches; readers never waited longer than 80 ms.",
                ("Write the batches", "Throttle", "Check the sums"),
            ),
        ),
        (("make backfill FROM=03-01 TO=03-07", "Write one week to the staging table"),),
        (
            Question(
                "Duplicates",
                "Two sensors share an id. Whose reading counts?",
                (
                    ("The newer", "Simple, loses one reading"),
                    ("Both, renamed", "Keeps all, changes the id"),
                ),
            ),
        ),
        "Cost: one more pass at night.",
        ("Measure how late events are", "Find double counts", "Check downstream reports"),
        "Exit code 1: 3 failed, 92 passed",
    ),
    Project(
        "lantern-game",
        ("feature/weather", "fix/save-files"),
        ("src/world/weather.gd", "src/save/store.gd", "tests/save_test.gd", "src/fx/rain.gd"),
        "make test-headless",
        "make export-web",
        (
            Job(
                "Rain that puts out lanterns",
                "Rain should put out uncovered lanterns after a while, gusts sooner",
                "Lanterns go out after 20 s of rain, 8 s in gusts. Covered ones stay lit.",
                ("Rain exposure per lantern", "Gusts", "Sound"),
            ),
            Job(
                "Keep old save files working",
                "Saves from before the weather update must load. Add tests with real ones",
                "All 14 old saves load. The oldest lacked a season, so it begins in spring.",
            ),
        ),
        (("rm -rf ~/.local/share/lantern-game/saves.bak", "Remove the backup made by the test"),),
        (
            Question(
                "Balance",
                "May rain end a run?",
                (("Yes", "Harsher, as in the notes"), ("No", "It only makes it dark")),
            ),
        ),
        "Budget: 0.3 ms a frame.",
        ("Profile the particles", "Collect old save files", "Look for magic numbers"),
        "Exit code 1: save_test: season missing",
    ),
    Project(
        "kiln-firmware",
        ("fix/watchdog", "feature/ramp-profiles"),
        ("src/ramp.c", "src/watchdog.c", "test/test_ramp.c", "include/profile.h"),
        "ctest --output-on-failure",
        "cmake --build build",
        (
            Job(
                "Feed the watchdog from one place",
                "The kiln resets during long ramps. Feed the watchdog from the control loop only",
                "The loop alone feeds it, and a stuck sensor now trips it within 4 s, as it should.",
                ("Find who feeds it", "One place", "Test a stuck sensor"),
            ),
            Job(
                "Ramp profiles from a file",
                "Read ramp profiles from the card, and refuse those that heat too fast",
                "Profiles are read and checked. Anything above 300 degrees an hour is refused by name.",
            ),
        ),
        (("make flash PORT=/dev/ttyUSB0", "Flash the bench board"),),
        (
            Question(
                "Limits",
                "What should happen above the limit?",
                (("Refuse the profile", "Nothing is heated"), ("Slow it down", "Takes longer")),
            ),
        ),
        "It can be flashed back in a minute.",
        ("Find every watchdog call", "Read the sensor's data sheet"),
        "Exit code 8: 1 of 22 tests failed",
    ),
    Project(
        "field-guide",
        ("chapter/wetlands", "main"),
        ("wetlands.md", "outline.md", "glossary.md", "plates.md"),
        "make check-links",
        "pandoc wetlands.md -o wetlands.pdf",
        (
            Job(
                "Draft the wetlands chapter",
                "Draft the chapter on wetlands from my notes, 12 pages, for people who walk",
                "The draft has 12 pages and five walks. Two plates are still missing.",
            ),
            Job(
                "Sources on reed beds",
                "What do we know about how fast reed beds spread? Recent sources only",
                "Seven sources, three of them measured it: 0.4 to 1.1 m a year on calm shores.",
            ),
        ),
        (("git tag draft-3", "Mark the draft that goes to readers"),),
        (
            Question(
                "Audience",
                "Latin names in the text or in the margin?",
                (("Margin", "Reads better aloud"), ("Text", "Easier to search")),
            ),
        ),
        "Open: who draws the plates.",
        ("Compare three field guides", "Check all place names"),
        "Exit code 1: 2 dead links",
    ),
)

PROJECTS = {
    project.name: project._replace(jobs=project.jobs + FURTHER[project.name])
    for project in (*CODE, *OTHERS)
}
