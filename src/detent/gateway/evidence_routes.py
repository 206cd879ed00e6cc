"""Evidence over HTTP: a file of a run as a download, and one added to it by hand.

Neither is JSON: both go through in pieces, so that a large file takes little memory.
"""

import tempfile
from collections.abc import Iterator
from inspect import Parameter
from typing import Annotated, Any, BinaryIO, cast
from urllib.parse import quote

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from detent.errors import TooLarge
from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext
from detent.gateway.openapi import ALWAYS, WITH_BODY, responses
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute, encode
from detent.operations import schemas
from detent.operations.evidence import ANY, Found, attach_evidence, find_evidence, read_evidence
from detent.operations.parameters import INPUTS
from detent.operations.registry import Scope
from detent.store.blobs import MAX_BLOB_BYTES

PATH = "/api/runs/{run_id}/evidence/{file:path}"
#: Up to here an upload is kept in memory.
IN_MEMORY_BYTES = 1_048_576


def evidence_routes(dispatcher: OperationDispatcher) -> list[ScopedRoute]:
    """What reads a file of a run, and what adds one."""
    return [_download(dispatcher), _upload(dispatcher)]


def _download(dispatcher: OperationDispatcher) -> ScopedRoute:
    async def download(request: Request, context: RequestContext) -> ASGIApp:
        run_id, file = _named(request)

        def find() -> tuple[Found, Iterator[bytes]]:
            found = find_evidence(dispatcher.core, context.caller, run_id, file)
            return found, read_evidence(dispatcher.core, found)

        found, pieces = await dispatcher.work(find)
        return StreamingResponse(pieces, 200, _headers(found), found.media_type)

    return ScopedRoute(
        "GET",
        PATH,
        download,
        Scope.READ,
        _documented(),
        response_class=Response,
        operation_id="evidence_file",
        summary="The bytes of a file that a run left behind, as a download.",
        description="Needs the scope `read`.",
        responses={**responses((*ALWAYS, "invalid", "not_found")), 200: _bytes()},
        tags=["runs"],
    )


def _headers(found: Found) -> dict[str, str]:
    """To be saved, never shown: the name is a file's, and whatever it says is data."""
    name = quote(found.file.rpartition("/")[2], safe="")
    return {
        "Content-Length": str(found.size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "ETag": f'"{found.sha256}"',
    }


def _upload(dispatcher: OperationDispatcher) -> ScopedRoute:
    async def upload(request: Request, context: RequestContext) -> ASGIApp:
        run_id, file = _named(request)
        await dispatcher.work(lambda: dispatcher.core.run(context.caller, run_id))
        strict_json.must_be(request, ANY)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as body:
            await _receive(request, body, dispatcher)
            added = await dispatcher.work(
                lambda: attach_evidence(
                    dispatcher.core, context.caller, run_id, file, cast(BinaryIO, body)
                )
            )
        return Response(encode(added), 201, media_type=strict_json.JSON)

    return ScopedRoute(
        "PUT",
        PATH,
        upload,
        Scope.OPERATE,
        _documented(),
        response_model=schemas.Evidence,
        status_code=201,
        operation_id="attach_evidence",
        summary="Add a file to a run by hand, while no worker holds its job.",
        description="Needs the scope `operate`.",
        responses=responses((*ALWAYS, *WITH_BODY, "invalid", "not_found", "refused")),
        openapi_extra={"requestBody": {"required": True, "content": _bytes()["content"]}},
        tags=["runs"],
    )


async def _receive(request: Request, body: Any, dispatcher: OperationDispatcher) -> None:
    declared = request.headers.get("content-length", "0")
    size = int(declared) if declared.isdigit() else 0
    received = 0
    async for piece in strict_json.pieces(request):
        received += len(piece)
        if max(size, received) > MAX_BLOB_BYTES:
            raise TooLarge(f"The body is over {MAX_BLOB_BYTES} bytes.", limit=MAX_BLOB_BYTES)
        if received > IN_MEMORY_BYTES:
            await dispatcher.work(lambda piece=piece: body.write(piece))  # type: ignore[misc]
        else:
            body.write(piece)


def _named(request: Request) -> tuple[str, str]:
    parameters = request.path_params
    return strict_json.plain(parameters["run_id"], "run_id"), strict_json.plain(
        parameters["file"], "file"
    )


def _documented() -> list[Parameter]:
    names = {"run_id": INPUTS["run_id"].meaning, "file": "The name of the file"}
    return [
        Parameter(
            name, Parameter.KEYWORD_ONLY, annotation=Annotated[str, Path(description=meaning)]
        )
        for name, meaning in names.items()
    ]


def _bytes() -> dict[str, Any]:
    content = {ANY: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": "The bytes", "content": content}
