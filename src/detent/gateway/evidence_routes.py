"""Evidence over HTTP: download a file of a run, and add a file to a run.

Both stream the bytes, so a large file takes little memory.
"""

import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from detent.errors import TooLarge
from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext
from detent.gateway.openapi import ALWAYS, WITH_BODY, Documentation, Json, parameter
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute, encode
from detent.operations import schemas
from detent.operations.evidence import ANY, Found, attach_evidence, find_evidence, read_evidence
from detent.operations.parameters import INPUTS
from detent.operations.registry import Scope
from detent.store.blobs import MAX_BLOB_BYTES

PATH = "/api/runs/{run_id}/evidence/{file:path}"
#: An upload up to this size is kept in memory.
IN_MEMORY_BYTES = 1_048_576


def evidence_routes(dispatcher: OperationDispatcher) -> list[ScopedRoute]:
    """The routes that read a file of a run and add one."""
    return [_download(dispatcher), _upload(dispatcher)]


def _download(dispatcher: OperationDispatcher) -> ScopedRoute:
    async def download(request: Request, context: RequestContext) -> ASGIApp:
        run_id, file = _named(request)

        def find() -> tuple[Found, Iterator[bytes]]:
            found = find_evidence(dispatcher.core, context.caller, run_id, file)
            return found, read_evidence(dispatcher.core, found)

        found, pieces = await dispatcher.run_in_thread(find)
        return StreamingResponse(pieces, 200, _headers(found), found.media_type)

    documentation = Documentation(
        operation_id="evidence_file",
        summary="Download a file that a run has kept as evidence.",
        description="Needs the scope `read`.",
        tag="runs",
        parameters=_parameters(),
        responses={200: _bytes()},
        errors=(*ALWAYS, "invalid", "not_found"),
    )
    return ScopedRoute("GET", PATH, download, Scope.READ, documentation)


def _headers(found: Found) -> dict[str, str]:
    """Headers that make a browser save the file and never show it: its content is not trusted."""
    name = quote(found.file.rpartition("/")[2], safe="")
    return {
        "Content-Length": str(found.size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "ETag": f'"{found.sha256}"',
    }


def _upload(dispatcher: OperationDispatcher) -> ScopedRoute:
    async def upload(request: Request, context: RequestContext) -> ASGIApp:
        run_id, file = _named(request)
        await dispatcher.run_in_thread(lambda: dispatcher.core.run(context.caller, run_id))
        strict_json.must_be(request, ANY)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as body:
            await _receive(request, body, dispatcher)
            added = await dispatcher.run_in_thread(
                lambda: attach_evidence(
                    dispatcher.core, context.caller, run_id, file, cast(BinaryIO, body)
                )
            )
        return Response(encode(added), 201, media_type=strict_json.JSON)

    documentation = Documentation(
        operation_id="attach_evidence",
        summary="Add a file to a run manually, while no worker holds its job.",
        description="Needs the scope `operate`.",
        tag="runs",
        parameters=_parameters(),
        body={"required": True, "content": _bytes()["content"]},
        status=201,
        response_type=schemas.Evidence,
        errors=(*ALWAYS, *WITH_BODY, "invalid", "not_found", "refused"),
    )
    return ScopedRoute("PUT", PATH, upload, Scope.OPERATE, documentation)


async def _receive(request: Request, body: Any, dispatcher: OperationDispatcher) -> None:
    declared = request.headers.get("content-length", "0")
    size = int(declared) if declared.isdigit() else 0
    received = 0
    async for piece in strict_json.pieces(request):
        received += len(piece)
        if max(size, received) > MAX_BLOB_BYTES:
            raise TooLarge(f"The body is over {MAX_BLOB_BYTES} bytes.", limit=MAX_BLOB_BYTES)
        if received > IN_MEMORY_BYTES:
            await dispatcher.run_in_thread(lambda piece=piece: body.write(piece))  # type: ignore[misc]
        else:
            body.write(piece)


def _named(request: Request) -> tuple[str, str]:
    parameters = request.path_params
    return strict_json.plain(parameters["run_id"], "run_id"), strict_json.plain(
        parameters["file"], "file"
    )


def _parameters() -> tuple[Json, ...]:
    meanings = {"run_id": INPUTS["run_id"].meaning, "file": "The name of the file"}
    return tuple(
        parameter("path", name, {"type": "string", "description": meaning}, required=True)
        for name, meaning in meanings.items()
    )


def _bytes() -> Json:
    content = {ANY: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": "The bytes", "content": content}
