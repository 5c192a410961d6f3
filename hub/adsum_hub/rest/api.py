"""What all endpoints have in common: JSON in and out, errors in words, and their OpenAPI."""

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from adsum_hub.request_guard import log_refusal
from adsum_shared.connect import UNAVAILABLE
from adsum_shared.redis_errors import ExhaustedError

T = TypeVar("T")
Work = TypeVar("Work", bound=Callable[..., Awaitable[Any]])

SCHEMA = 1
MOST_BYTES = 8 * 1024
#: Some need no sign-in: nobody may hold connections open by sending slowly.
BODY_S = 10.0

AWAY = "Redis does not answer the hub, so this was not done, or not to the end."
AWAY_STEP = "Try again in a moment; `adsum doctor` on the hub's machine says what is wrong."
BUSY = "Too much is asked of this hub at once."
BUSY_STEP = "Try again in a moment."
AWAY_RETRY_S, BUSY_RETRY_S = 5, 2

#: Further answers of endpoints that change something, for OpenAPI: status -> why.
REFUSED = {
    400: "No such request",
    401: "Not signed in",
    403: "Not the role for it",
    409: "Not possible here",
    415: "Not JSON",
    503: "Redis does not answer",
}
UNKNOWN = {404: "No such one"}
OFTEN = {429: "Too many tries: see Retry-After"}


class Problem(msgspec.Struct):
    """error: what is wrong; next: what to do about it."""

    error: str
    next: str


class BadRequestError(Exception):
    """A request is refused with this status, cause and next step."""

    def __init__(
        self, status: int, cause: str, step: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(cause)
        self.status, self.step, self.headers = status, step, headers

    @property
    def answer(self) -> Response:
        return as_json(Problem(str(self), self.step), self.status, self.headers)


def too_many(cause: str, wait_s: int, step: str) -> BadRequestError:
    return BadRequestError(429, cause, step, {"retry-after": str(wait_s)})


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def unavailable(error: BaseException) -> Response:
    """The answer where Redis could not be asked. error: of `connect.UNAVAILABLE`."""
    if isinstance(error, ExhaustedError):
        return as_json(Problem(BUSY, BUSY_STEP), 503, {"retry-after": str(BUSY_RETRY_S)})
    return as_json(Problem(AWAY, AWAY_STEP), 503, {"retry-after": str(AWAY_RETRY_S)})


async def read(request: Request, of: type[T]) -> T:
    """Raises BadRequestError. Only JSON: a page from elsewhere cannot send it without asking first.

    of: its `most_bytes`, if it has any, stand for MOST_BYTES.

    The request guard refuses its question, as it refuses whatever names another Origin.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        step = "Send it with Content-Type: application/json."
        raise BadRequestError(415, "This takes JSON only.", step)
    body, most = b"", getattr(of, "most_bytes", MOST_BYTES)
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    step = f"Send at most {most} bytes."
                    raise BadRequestError(413, "This is too long.", step)
    except TimeoutError as error:
        cause = f"The request did not arrive within {BODY_S:.0f} s."
        raise BadRequestError(408, cause, "Send it again.") from error
    try:
        return msgspec.json.decode(body or b"{}", type=of)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        step = "See /openapi.json for what belongs there."
        raise BadRequestError(400, f"The body cannot be read: {error}.", step) from error


async def _require_json(request: Request) -> None:
    await read(request, msgspec.Raw)


#: A dependency of endpoints that take no body, but no request of another page either.
JSON_ONLY = Depends(_require_json)


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


def bearer_in(authorization: str) -> str:
    """The header's bearer; empty if it holds something else."""
    scheme, _, bearer = authorization.partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else ""


def bearer_of(request: Request) -> str:
    return bearer_in(request.headers.get("authorization", ""))


def endpoint(
    route: str,
    summary: str | None = None,
    also: Mapping[int, str] | None = None,
    *,
    csv: bool = False,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    logged: bool = False,
    **options: Any,
) -> Callable[[Work], Work]:
    """Makes a method an endpoint, at a route such as "POST /tokens", for `add_endpoints`.

    also: status -> why, for OpenAPI. status, headers: of the answer. logged: the log names who is refused;
    the method takes `request`.

    A parameter annotated with a struct is the body; the struct that is returned is the answer, as
    JSON. Every endpoint is a coroutine, also one that awaits nothing: a plain function would run in a
    thread, beside the loop that changes the roster under its hands.
    """
    method, _, path = route.partition(" ")
    options |= {"methods": [method], "summary": summary, "status_code": status}

    def mark(work: Work) -> Work:
        def add(router: APIRouter, to: object) -> None:
            call = partial(work, to)
            bodies, answer, shown = _contract(call)
            served = _answering(call, status, headers, logged=logged)
            served.__name__ = work.__name__
            served.__signature__ = shown  # type: ignore[attr-defined] # functions take any attribute
            router.add_api_route(
                path,
                served,
                responses=_responses(answer, status, also or {}, csv=csv),
                response_class=Response,
                openapi_extra=_taking(bodies[0]) if bodies else None,
                **options,
            )

        work.add_endpoint = add  # type: ignore[attr-defined] # functions take any attribute
        return work

    return mark


def _contract(call: Callable[..., Any]) -> tuple[list[Any], Any, inspect.Signature]:
    """The struct that is its body, if there is one, the one that it answers, and what FastAPI reads.

    That would take a struct for a model of pydantic's.
    """
    signature = inspect.signature(call, eval_str=True)
    parameters, returned = signature.parameters.values(), signature.return_annotation
    bodies = [each.annotation for each in parameters if _is_struct(each.annotation)]
    (answer,) = filter(_is_struct, (returned, *get_args(returned)))
    _structs.update((*bodies, answer, Problem))
    return bodies, answer, inspect.Signature([*map(_from_body, parameters)])


def _taking(body: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": _json(body)}}


def _answering(
    call: Callable[..., Awaitable[Any]],
    status: int,
    headers: Mapping[str, str] | None,
    *,
    logged: bool,
) -> Callable[..., Awaitable[Response]]:
    """What FastAPI is to call: its answer is always a response."""

    async def served(**named: Any) -> Response:
        try:
            found = await call(**named)
        except UNAVAILABLE as error:
            return unavailable(error)
        except BadRequestError as error:
            if logged:
                log_refusal(named["request"].scope, str(error))
            raise
        return found if isinstance(found, Response) else as_json(found, status, headers)

    return served


def add_endpoints(router: APIRouter, to: object, of: type | None = None) -> APIRouter:
    """Serves the endpoints among an object's methods, in their order. of: its class."""
    for work in vars(of or type(to)).values():
        if hasattr(work, "add_endpoint"):
            work.add_endpoint(router, to)
    return router


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _from_body(parameter: inspect.Parameter) -> inspect.Parameter:
    kind = parameter.annotation
    if not _is_struct(kind):
        return parameter

    async def body(request: Request) -> Any:
        return await read(request, kind)

    return parameter.replace(annotation=Annotated[Any, Depends(body)])


def _json(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}


def _responses(
    kind: type, status: int, also: Mapping[int, str], *, csv: bool
) -> dict[int | str, dict[str, Any]]:
    content = _json(kind) | ({"text/csv": {"schema": {"type": "string"}}} if csv else {})
    answers: dict[int | str, dict[str, Any]] = {status: {"description": "OK", "content": content}}
    for other, why in also.items():
        answers[other] = {"description": why, "content": _json(Problem)}
    return answers


#: What endpoints take and return. Schemas are made of it once somebody asks for them.
_structs: set[type] = set()


def components(
    kinds: Iterable[type], ref_template: str = "#/components/schemas/{name}"
) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """As msgspec's, the same from every Python: before 3.13 docstrings keep their indentation."""
    refs, found = msgspec.json.schema_components(kinds, ref_template=ref_template)
    for each in found.values():
        if "description" in each:
            each["description"] = inspect.cleandoc(each["description"])
    return refs, found


def _references(part: object) -> set[str]:
    """Return the names of all components that a part of an OpenAPI document refers to."""
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(part)))


def describe(app: FastAPI) -> None:
    """Puts our structs into the OpenAPI document, so that it stays the contract."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        document = original()
        parts = document.setdefault("components", {})
        ours = components(_structs)[1]
        # _structs also holds those of routers that other apps of this process serve.
        names, new = set[str](), _references(document["paths"])
        while new:
            names |= new
            new = _references([ours[name] for name in new & ours.keys()]) - names
        used = {name: ours[name] for name in names & ours.keys()}
        parts["schemas"] = dict(sorted((parts.get("schemas", {}) | used).items()))
        return document

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI documents it


def explain(app: FastAPI) -> None:
    """Answers every refusal with a Problem: of ours, of FastAPI's parameters, and of its routers."""

    async def refuse(_: Request, error: Exception) -> Response:
        if isinstance(error, BadRequestError):
            return error.answer
        wrong = error.errors() if isinstance(error, RequestValidationError) else []
        said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in wrong)
        problem = Problem(f"A parameter cannot be used. {said[:500]}.", "See /openapi.json.")
        return as_json(problem, 422)

    async def miss(request: Request, error: Exception) -> Response:
        """Routers raise it: nothing is at an address, or it takes other methods."""
        missed = error if isinstance(error, HTTPException) else HTTPException(500)
        said = {404: "There is nothing here.", 405: f"This address does not take {request.method}."}
        cause = said.get(missed.status_code, missed.detail)
        problem = Problem(cause, "See /openapi.json for what there is.")
        return as_json(problem, missed.status_code, missed.headers)

    app.add_exception_handler(BadRequestError, refuse)
    app.add_exception_handler(RequestValidationError, refuse)
    app.add_exception_handler(HTTPException, miss)
