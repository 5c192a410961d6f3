"""What the demo's sessions work on: made-up projects, in the words of those who write software."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """title: the session's. done: the agent's last words. tasks: the steps it sets itself."""

    title: str
    prompt: str
    done: str
    tasks: tuple[str, ...] = ()


class Question(NamedTuple):
    """options: label and what choosing it means."""

    header: str
    text: str
    options: tuple[tuple[str, str], ...]


class Project(NamedTuple):
    """branches: of the first jobs. plan: what a plan ends with. risky: commands that need a permission, and why. helpers: what subagents are sent for."""

    name: str
    branches: tuple[str, ...]
    files: tuple[str, ...]
    test: str
    build: str
    jobs: tuple[Job, ...]
    risky: tuple[tuple[str, str], ...]
    questions: tuple[Question, ...]
    plan: str
    helpers: tuple[str, ...]
    failure: str = "Exit code 1: 2 failed, 148 passed"


CODE = (
    Project(
        "parcel-api",
        ("fix/label-race", "feature/bulk-labels", "chore/drop-v1"),
        ("labels/render.py", "labels/queue.py", "tests/test_queue.py", "api/shipments.py"),
        "pytest -q tests/labels",
        "docker build -t parcel-api:dev .",
        (
            Job(
                "Fix the race in the label queue",
                "Two workers sometimes print the same label. Find out why and fix it, with a test",
                "Both workers read before either wrote. The claim is one statement now, and a test holds it.",
                ("Reproduce with two workers", "Claim labels in one statement", "Keep the test"),
            ),
            Job(
                "Bulk endpoint for shipping labels",
                "Add POST /labels/bulk: up to 500 shipments, partial failures reported per item",
                "POST /labels/bulk is in. It answers 207 with one result per shipment.",
                ("Design the answer", "Write the endpoint", "Document partial failures"),
            ),
            Job(
                "Remove the v1 shipment routes",
                "Nobody has called /v1/shipments for 60 days. Remove it and what only it used",
                "The v1 routes and 1,140 lines that only they used are gone. Commit is ready.",
            ),
        ),
        (
            ("psql $STAGING_URL -f migrations/0042_claimed_at.sql", "Add claimed_at on staging"),
            ("git push --force-with-lease origin fix/label-race", "Push the rebased branch"),
        ),
        (
            Question(
                "Partial",
                "Should one bad address fail the whole batch?",
                (
                    ("Only that label", "The rest is printed, the bad one is reported"),
                    ("The whole batch", "Nothing is printed until all are valid"),
                ),
            ),
        ),
        "Risk: one more index on a hot table.",
        ("Find every reader of label state", "Check the retry path", "Review the migration"),
    ),
    Project(
        "tidewater-web",
        ("feature/offline-maps", "fix/scroll-jump", "chore/router-7"),
        ("src/map/TileCache.ts", "src/map/Legend.tsx", "src/routes.ts", "src/map/tiles.test.ts"),
        "npx vitest run src/map",
        "npm run build",
        (
            Job(
                "Keep map tiles for offline use",
                "Cache the last 200 tiles so that the harbour map works without a signal",
                "The last 200 tiles are kept, oldest out first. Works in flight mode on both test devices.",
                ("Measure tile sizes", "Cache with a bound", "Show what is stale"),
            ),
            Job(
                "Stop the list from jumping on load",
                "The tide list jumps by a row when images arrive. Reserve their space",
                "Images have their space reserved. Layout shift went from 0.21 to 0.01.",
            ),
            Job(
                "Move to the new router",
                "Upgrade the router to version 7 and remove the compatibility layer",
                "All 31 routes are on the new router. Shall I delete the old loader helpers as well?",
                ("Upgrade", "Port the loaders", "Remove the layer"),
            ),
        ),
        (
            ("npm install --save-exact @tide/router@7.2.0", "Install the new router"),
            ("rm -rf node_modules/.cache dist", "Clear stale build output"),
        ),
        (
            Question(
                "Storage",
                "How much of a phone's storage may tiles take?",
                (
                    ("50 MB", "About 200 tiles, one harbour"),
                    ("200 MB", "A whole coast"),
                    ("Ask the user", "One more dialog at first start"),
                ),
            ),
        ),
        "Not part of it: anything that is fetched ahead of time.",
        ("List all uses of the old router", "Map the tile pipeline", "Read the migration guide"),
        "Exit code 1: 1 failed, 63 passed",
    ),
    Project(
        "ledgerline",
        ("fix/rounding", "feature/multi-currency", "perf/statement-query"),
        ("ledger/money.rs", "ledger/statement.rs", "ledger/tests/rounding.rs", "ledger/rates.rs"),
        "cargo test --workspace",
        "cargo build --release",
        (
            Job(
                "Round once, at the end",
                "Statements are off by a cent on long months. Round once, at the end",
                "Amounts stay exact until they are shown. The 1,200 recorded statements now match.",
                (
                    "Find where rounding happens",
                    "Keep exact amounts",
                    "Compare recorded statements",
                ),
            ),
            Job(
                "Statements in several currencies",
                "Let a statement hold several currencies, each with its own total",
                "A statement has one total per currency. Rates are frozen at the booking date.",
                ("Model the totals", "Freeze rates", "Render"),
            ),
            Job(
                "Make the monthly statement query fast",
                "The monthly statement takes 9 seconds for large ledgers. Get it below one",
                "From 9.1 s to 0.4 s with one covering index and no join in the loop.",
            ),
        ),
        (
            ("cargo publish -p ledger-money --dry-run", "See what would be published"),
            ("psql $REPLICA_URL -c 'EXPLAIN (ANALYZE) SELECT …'", "Run the query on the replica"),
        ),
        (
            Question(
                "Rates",
                "Which rate should a refund use?",
                (
                    ("The original booking's", "Refunds cancel out exactly"),
                    ("Today's", "Matches what the bank does"),
                ),
            ),
        ),
        "Open: what refunds should do. I would decide that later.",
        ("Find every place that rounds", "Profile the statement query", "Compare with last month"),
        "Exit code 101: test rounding::long_month failed",
    ),
    Project(
        "greenhouse-infra",
        ("fix/alert-noise", "feature/blue-green"),
        ("modules/cluster/main.tf", "alerts/rules.yaml", "modules/dns/main.tf", "Makefile"),
        "make test",
        "terraform plan -out=plan.bin",
        (
            Job(
                "Quiet the disk alerts",
                "The disk alert wakes us for nothing. Alert on the trend, not on 80 %",
                "The alert now asks whether the disk will be full within 8 hours. It would have fired twice in a month.",
                ("Replay last month's alerts", "Write the new rule"),
            ),
            Job(
                "Blue-green for the ingest cluster",
                "Plan a blue-green rollout for ingest, with a way back in under a minute",
                "Rollout and way back are scripted. The way back took 38 s in the rehearsal.",
                ("Second target group", "Switch by weight", "Rehearse the way back"),
            ),
        ),
        (
            ("terraform apply plan.bin", "Apply the reviewed plan to staging"),
            ("kubectl -n ingest rollout restart deploy/reader", "Pick up the new config"),
        ),
        (
            Question(
                "Window",
                "When may the switch happen?",
                (
                    ("Any time", "It is reversible within a minute"),
                    ("At night only", "Traffic is a tenth of the day's"),
                ),
            ),
        ),
        "Way back: set the weight to 0; it takes under a minute.",
        ("Collect last month's alerts", "Check quota in both zones", "Review the rollout script"),
        "Exit code 2: alerts/rules.yaml: unknown function",
    ),
)
