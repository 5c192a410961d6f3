"""Further jobs of the demo's projects, so that each session has one of its own; and what comes next."""

from __future__ import annotations

from adsum.demo.projects import Job

FURTHER: dict[str, tuple[Job, ...]] = {
    "parcel-api": (
        Job(
            "Retry carriers with a back-off",
            "When a carrier answers 503 we hammer it. Back off, and give up after an hour",
            "Retries back off to five minutes and end after an hour, with a reason in the log.",
        ),
        Job(
            "Split the address parser",
            "The address parser is 900 lines. Split it by country without changing what it does",
            "One module per country. All 3,200 recorded addresses parse as before.",
        ),
        Job(
            "Trace a label through all services",
            "I want one trace id from the order to the printed label",
            "One id runs from order to printer, also through the queue.",
        ),
        Job(
            "Tests without the network",
            "Eleven tests talk to a real carrier. Record them",
            "All eleven run from recordings; the suite takes 9 s instead of 71.",
        ),
    ),
    "tidewater-web": (
        Job(
            "Tide curve for screen readers",
            "The tide curve says nothing to a screen reader. Give it a table and a summary",
            "The curve has a summary and a table. Both read well with two screen readers.",
        ),
        Job(
            "Find what makes the bundle large",
            "The bundle has grown by 240 kB since spring. Find out by what",
            "Two date libraries and an icon set. Without them it is 268 kB smaller.",
        ),
        Job(
            "Dark map style",
            "A dark style for the map, with the same contrast rules as the page",
            "The dark style is in, and every label keeps a contrast of 4.5 or more.",
        ),
    ),
    "ledgerline": (
        Job(
            "Import bank files of 2 GB",
            "Imports above 1 GB run out of memory. Read them as a stream",
            "A 2 GB file takes 41 s and 60 MB of memory.",
        ),
        Job(
            "Property tests for transfers",
            "Write property tests: money is neither made nor lost, whatever the order",
            "Six properties hold. One did not at first: a transfer to oneself.",
        ),
        Job(
            "Close a year without a lock",
            "Closing the year locks the ledger for 20 minutes. It must not",
            "Closing works on a snapshot; bookings go on meanwhile.",
        ),
    ),
    "greenhouse-infra": (
        Job(
            "Rotate the signing keys",
            "Rotate the signing keys without a moment in which either is refused",
            "Both keys are accepted for a day, then only the new one.",
        ),
        Job(
            "Cut the log bill in half",
            "Our logs cost more than the machines. What can go?",
            "Health checks were 61 % of it. They are counted now, not logged.",
        ),
        Job(
            "Restore drill",
            "Restore last night's backup into an empty cluster and time it",
            "Restored in 14 minutes, checksums equal. The runbook lacked one step.",
        ),
    ),
    "orchard-pipeline": (
        Job(
            "Yield forecast for pears",
            "Fit the yield model for pears with the last five years",
            "The model is off by 6 % on the year it has not seen.",
        ),
        Job(
            "Columnar storage for readings",
            "Try columnar files for the raw readings: size, and time of our ten queries",
            "A seventh of the size, and nine of ten queries are faster.",
        ),
        Job(
            "Name the owner of every table",
            "Every table needs an owner and a description. Draft them from the code",
            "All 84 tables are described; 11 have no reader and could go.",
        ),
    ),
    "lantern-game": (
        Job(
            "Controller support in menus",
            "Every menu must work with a controller alone",
            "All menus work with a controller; the map needed a cursor of its own.",
        ),
        Job(
            "Footsteps by ground",
            "Footsteps should sound like what one walks on, 9 kinds of ground",
            "Nine kinds of ground are heard; moss borrows from grass.",
        ),
    ),
    "kiln-firmware": (
        Job(
            "Log temperatures to the card",
            "Write one reading a second to the card, and survive a power cut",
            "At most two seconds are lost. 300 cuts on the bench, no bad file.",
        ),
        Job(
            "Smaller image",
            "The image must fit 128 kB again. It has 141",
            "124 kB: the float formatter went, and two fonts.",
        ),
    ),
    "field-guide": (
        Job(
            "Index of all birds",
            "Make an index of every bird that is named, with pages",
            "212 birds are indexed; four were spelt in two ways.",
        ),
    ),
}

#: What a human types once the first job is done, and what the agent says at its end.
NEXT: tuple[tuple[str, str], ...] = (
    ("Good. Now write down why, where the next reader will look", "It stands beside the code."),
    ("Is there anything else of that kind in the project?", "Two more places, both mended."),
    ("Make the names say what they are", "Four names are clearer now; nothing else changed."),
    ("Add a test for the case with no entries at all", "The test is in, and it found a bug."),
    ("Rebase on main and run everything again", "Rebased, everything passes."),
    ("What would you take out of this?", "One option that nobody sets. It is gone."),
    ("Measure before and after, and put the figures into the commit", "Figures are in the commit."),
    ("Handle the empty answer as well", "An empty answer is told apart from none."),
    ("Show me the riskiest line of this change", "It is the one that deletes; it asks first now."),
)
