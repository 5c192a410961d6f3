"""A short sweep of chaos: seeds that together draw every fault. `make chaos` plays others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import forked
from tests.chaos.faults import KINDS, draw
from tests.chaos.part import bare_environment

pytestmark = pytest.mark.redis

SECONDS = 8.0
SEEDS = (224, 237, 379, 389, 430, 543, 796, 1049, 1104)
#: For each change; all of them where everything is tried.
QUICK = SEEDS[1:3]


def test_the_seeds_of_the_sweep_draw_every_fault() -> None:
    drawn = {each.kind for seed in SEEDS for each in draw(random.Random(f"{seed} faults"), SECONDS)}

    assert drawn == set(KINDS)


# Beyond the usual: a run that is not as promised waits for it to become so.
@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    "seed",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in SEEDS],
)
def test_what_was_accepted_is_shown_once_and_in_order_whatever_happened(
    seed: int, tmp_path: Path
) -> None:
    words = ["--seeds", "1", "--first", str(seed), "--seconds", str(SECONDS)]
    words += ["--keep", str(tmp_path)]
    run = forked.run(*words, module="tests.chaos", env=bare_environment(), timeout=140)

    print(run.stdout)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
