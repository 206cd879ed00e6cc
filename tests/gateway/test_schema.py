"""The served document under attack: schemathesis finds nothing, on any route, with any example.

Every route takes its share by itself: at least a hundred requests, made to fit the document and to
break it, and at least one that is answered well. `./dev test` draws fewer of them, after the
same edges.
"""

import json
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from detent.integrations.telemetry.metrics import Metrics
from tests.gateway.installation import DEADLINE_S, Installation, installed
from tests.gateway.schema_material import (
    OF_OTHERS,
    ROLES,
    GeneratedRequest,
    fill,
    owner_of,
    run_token,
    wanted,
)
from tests.sampling import sampled

#: The routes are dealt out, so that several processes can share the work.
SHARDS = 16


class Size(NamedTuple):
    """How many requests there are at least, and of these how many are drawn to break the document
    and to fit it, after its edges were walked through one by one. The rest are strange ids and
    queries, which cost little to make up."""

    examples: int
    breaking: int
    fitting: int


SIZES = {"short": Size(25, 2, 4), "full": Size(100, 8, 16)}
LINES = "application/x-ndjson"
FOLLOWING = "/api/events"
#: Less than the gateway keeps a connection without requests.
PAUSE_S = 1.0
OF_A_RUN = "/api/run"
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
    checks.allow_header_conformance,
]
UNHURRIED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer(LINES)
def lines(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """A generated value as JSON lines."""
    rows = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _word(chance: random.Random) -> str:
    return "".join(chance.choices("abcxyz09_-:[]%'\"\\ é\u200b\U0001f600", k=chance.randint(1, 12)))


class Attack:
    """Sends what schemathesis makes up, over one connection, and has it check the responses."""

    def __init__(self, gateway: Installation) -> None:
        self.gateway = gateway
        document = owner_of(gateway).get("/openapi.json").json()
        config = SchemathesisConfig(seed=1)
        config.projects.default.generation.update(with_security_parameters=False)
        self.schema = schemathesis.openapi.from_dict(document, config=config)
        self.agent = run_token(gateway)
        self._line = HTTPConnection("127.0.0.1", gateway.port, timeout=DEADLINE_S)
        self._used_s = time.monotonic()
        self.sent = 0
        self.well = 0

    def line(self) -> HTTPConnection:
        """The connection, opened again after a pause, in which the gateway may have closed it."""
        if time.monotonic() - self._used_s > PAUSE_S:
            self._line.close()
        self._used_s = time.monotonic()
        return self._line

    def close(self) -> None:
        self._line.close()

    def operations(self, shard: int) -> list[Any]:
        every = [found.ok() for found in self.schema.get_all_operations() if isinstance(found, Ok)]
        return every[shard::SHARDS]

    def examine(self, operation: Any, size: Size) -> None:
        """Everything that is generated for one operation."""
        self.sent = self.well = 0
        self.say_well(operation)
        self.agent = run_token(self.gateway)
        for case in self._covering(operation):
            self.send(case)
        if operation.body or operation.query:  # an id alone has few edges, walked through already
            self._draw(operation.as_strategy(GenerationMode.NEGATIVE), size.breaking)
        self._draw(operation.as_strategy(GenerationMode.POSITIVE), size.fitting)
        self._be_strange(operation, size.examples - self.sent)

    def _draw(self, strategy: Any, count: int) -> None:
        """This many requests, or as many as can be generated."""

        @settings(UNHURRIED, max_examples=max(1, count))
        @given(strategy)
        def attack(case: Any) -> None:
            self.send(case)

        with suppress(Unsatisfiable):  # what takes no input at all cannot be broken by input
            attack()

    def _be_strange(self, operation: Any, count: int) -> None:
        """Ids that are none, with unknown queries."""
        chance = random.Random(operation.label)
        names = [each.name for each in operation.path_parameters]
        for _ in range(count):
            path = operation.path.format_map({name: quote(_word(chance), "") for name in names})
            query = {_word(chance): _word(chance) for _ in range(chance.randint(0, 2))}
            if path == FOLLOWING:
                query["follow"] = "false"
            headers = {"Authorization": f"Bearer {self._token(operation.path)}"}
            line = self.line()
            line.request(operation.method.upper(), f"{path}?{urlencode(query)}", None, headers)
            answer = line.getresponse()
            body = answer.read()
            self.sent += 1
            documented = operation.definition.raw["responses"]
            assert str(answer.status) in documented, f"{path}?{query}: {answer.status} {body!r}"
            assert answer.status < 500, f"{path}?{query}: {body!r}"

    def _covering(self, operation: Any) -> Iterator[Any]:
        generation = self.schema.config.generation_for(operation=operation, phase="coverage")
        yield from self.schema.iter_coverage_cases(
            operation, generation_modes=list(GenerationMode), generation_config=generation
        )

    # -- one request -----------------------------------------------------------------------

    def send(self, case: Any) -> None:
        if case.path == FOLLOWING and (case.query or {}).get("follow", True) not in ("maybe",):
            case.query = {**(case.query or {}), "follow": "false"}
        given = case.as_transport_kwargs(base_url=self.gateway.url)
        request = requests.Request(**given).prepare()
        request.headers["Authorization"] = f"Bearer {self._token(case.path)}"
        sent: Any = (request.method, request.path_url, request.body, dict(request.headers))
        line = self.line()
        line.request(*sent)
        answer = line.getresponse()
        headers: dict[str, list[str]] = {}
        for name, value in answer.getheaders():
            headers.setdefault(name.lower(), []).append(value)
        response = schemathesis.Response(
            answer.status, headers, answer.read(), request, 0.0, True, answer.reason
        )
        self.sent += 1
        self.well += answer.status < 300
        case.validate_response(response, checks=CHECKS)

    def _token(self, path: str) -> str:
        return self.agent if self._of_a_run(path) else self.gateway.token

    def _of_a_run(self, path: str) -> bool:
        return path == OF_A_RUN or path.startswith(f"{OF_A_RUN}/")

    # -- one that is answered well ---------------------------------------------------------

    def say_well(self, operation: Any) -> None:
        """Ask for it with the document's example, about everything there is, until it is done."""
        method, path = operation.method.upper(), operation.path
        if path in OF_OTHERS:
            self.well += 1  # it has no provider and no forge: tests/people and tests/forges do
            return
        token = run_token(self.gateway) if self._of_a_run(path) else self.gateway.token
        answers = []
        for each in wanted(self.gateway, method, path, operation.definition.raw):
            answer = self._ask(each, token)
            self.sent += 1
            if answer.status_code < 300:
                self.well += 1
                return
            answers.append(f"{each.path}: {answer.text[:200]}")
        raise AssertionError(f"{method} {path} was never answered well: {answers}")

    def _ask(self, each: GeneratedRequest, token: str) -> Any:
        query = {"follow": "false"} if each.path == FOLLOWING else None
        headers = {**each.headers, "Authorization": f"Bearer {token}"}
        return owner_of(self.gateway).request(
            each.method, each.path, content=each.content, headers=headers, params=query
        )


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    with installed(tmp_path_factory.mktemp("schema"), oidc_roles=ROLES) as gateway:
        gateway.server.gateway.metrics_page = Metrics(gateway.core, {})
        made = Attack(gateway)
        yield made
        made.close()


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("size", sampled(SIZES, len(SIZES)))
def test_schemathesis_finds_nothing(attack: Attack, shard: int, size: str) -> None:
    found = []
    for operation in attack.operations(shard):
        if operation.path_parameters:
            fill(attack.gateway)
        try:
            attack.examine(operation, SIZES[size])
            assert attack.sent >= SIZES[size].examples
        except (Exception, BaseExceptionGroup) as error:
            found.append(f"{operation.label}: {error}")
            attack.close()  # it is opened again: the next request is another one
    assert not found, "\n\n".join(found)


def test_every_route_of_the_document_was_dealt_out(attack: Attack) -> None:
    dealt = [each.label for shard in range(SHARDS) for each in attack.operations(shard)]
    listed = [
        f"{method.upper()} {path}"
        for path, methods in attack.schema.raw_schema["paths"].items()
        for method in methods
    ]
    assert sorted(dealt) == sorted(listed)
