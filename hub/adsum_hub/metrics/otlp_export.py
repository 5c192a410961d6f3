"""OpenTelemetry's own exporter, kept in bounds: how long it tries, what it logs, and why it failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from prometheus_client.core import Metric
from requests import PreparedRequest, Response, Session
from requests.auth import HTTPBasicAuth
from requests.exceptions import InvalidHeader, Timeout
from requests.utils import get_auth_from_url

from adsum_hub.metrics.otlp_points import metrics_data
from adsum_shared import __version__

KEY = "Give it a key it knows, in OTEL_EXPORTER_OTLP_HEADERS as name=value."
THERE = "See whether an OTLP receiver listens there, by HTTP."
HEADER = (
    "a value in OTEL_EXPORTER_OTLP_HEADERS cannot be sent in a header. "
    "Write it in ASCII, on one line."
)
URLS = (
    "a URL cannot be used. See that of the proxy (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY), then "
    "ADSUM_OTLP_ENDPOINT: both look like http://host:port."
)
FILES = (
    "A file named in OTEL_EXPORTER_OTLP_CERTIFICATE or OTEL_EXPORTER_OTLP_CLIENT_… is not there."
)


class Exporter:
    """Opened once; every call of it is one export, tried until timeout_s is over."""

    def __init__(self, endpoint: str, resource: Resource, timeout_s: float) -> None:
        _silence()
        self._session = _Session()
        self.resource = resource
        self._start = time.time_ns()
        # OTEL_EXPORTER_OTLP_TIMEOUT is not left to the library: it takes for seconds what others,
        # Claude Code among them, take for milliseconds.
        self._exporter = OTLPMetricExporter(
            f"{endpoint}/v1/metrics", timeout=timeout_s, session=self._session
        )

    def __call__(self, families: Sequence[Metric], now: int) -> str | None:
        self._session.problem = None
        data = metrics_data(families, self.resource, self._start, now)
        result = self._exporter.export(data)
        if result is not MetricExportResult.SUCCESS and self._session.problem is None:
            return "the library could not write them down."
        return self._session.problem


def open_export(endpoint: str, instance: str, timeout_s: float) -> Exporter:
    about = {"service.name": "adsum-hub", "service.version": __version__}
    resource = Resource.create({**about, "service.instance.id": instance})
    return Exporter(endpoint, resource, timeout_s)


class _Session(Session):
    """Notes what the exporter tells nobody but a log: why the last try failed."""

    problem: str | None = None

    def __init__(self) -> None:
        super().__init__()
        # Where there is none, a login of ~/.netrc counts before OTEL_EXPORTER_OTLP_HEADERS.
        self.auth = _login_of_url

    def request(self, *args: Any, **kwargs: Any) -> Response:
        # Said again here, or REQUESTS_CA_BUNDLE would count before OTEL_EXPORTER_OTLP_CERTIFICATE.
        kwargs.setdefault("verify", self.verify)
        try:
            answer = super().request(*args, **kwargs)
        except (OSError, ValueError) as error:  # what this library, urllib3 and codecs raise
            self.problem = _cause(error, kwargs.get("headers") or {})
            raise
        self.problem = _refusal(answer.status_code)
        return answer


def _login_of_url(request: PreparedRequest) -> PreparedRequest:
    """As the library would, but in UTF-8: it knows no letters beyond Latin-1."""
    user, password = (each.encode() for each in get_auth_from_url(request.url or ""))
    return HTTPBasicAuth(user, password)(request) if user or password else request


def _refusal(status: int) -> str | None:
    """A redirect too, which the exporter takes for success without following it."""
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    words = {each.value: each.phrase for each in HTTPStatus}
    step = KEY if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) else THERE
    return f"it answers {status} {words.get(status, '')}".rstrip() + f". {step}"


def _cause(error: OSError | ValueError, headers: Mapping[str, str]) -> str:
    """Never the library's own words: they quote the URL, or a header's value."""
    unwritable = isinstance(error, UnicodeEncodeError) and error.object in headers.values()
    if unwritable or isinstance(error, InvalidHeader):
        return HEADER
    if isinstance(error, ValueError):  # some are both
        return URLS
    if type(error) is OSError:
        return FILES
    if isinstance(error, Timeout):
        return f"no answer in time. {THERE}"
    said = next(_reasons(error), type(error).__name__)
    return f"{said}. {THERE}"


def _reasons(error: BaseException | None) -> Iterator[str]:
    """What the system said, of failures one within the other."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            yield error.strerror
        error = error.__cause__ or error.__context__


def _silence() -> None:
    """These log each try, and quote headers and URLs; what is to be known is told once, by us."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
