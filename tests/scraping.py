"""Reading `/metrics` in tests: what a Prometheus would have stored of one scrape."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

#: Name and labels -> value.
Scraped = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read_metrics(text: str) -> Scraped:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(url: str, token: str | None = None) -> Scraped:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = httpx.get(f"{url}/metrics", headers=headers, timeout=10, trust_env=False)
    assert answer.status_code == 200, answer.text
    return read_metrics(answer.text)


def value(scraped: Scraped, name: str, **labels: str) -> float | None:
    """The one with these labels among its own; None if there is none."""
    found = [
        number
        for (called, own), number in scraped.items()
        if called == name and set(labels.items()) <= set(own)
    ]
    assert len(found) <= 1, f"{len(found)} of {name}"
    return found[0] if found else None
