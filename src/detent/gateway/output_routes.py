"""The output of a run over HTTP as a file to download."""

from collections.abc import Iterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp

from detent.gateway import strict_json
from detent.gateway.middleware import RequestContext
from detent.gateway.openapi import ALWAYS, Documentation, parameter
from detent.gateway.operation_dispatcher import OperationDispatcher
from detent.gateway.operation_routes import ScopedRoute
from detent.operations.context import Core
from detent.operations.parameters import INPUTS
from detent.operations.registry import Scope
from detent.operations.run_output import MAX_BYTES, read_bytes

PATH = "/api/runs/{run_id}/output/file"
#: Never a type that a browser executes or renders as a page: the content is not trusted.
MEDIA_TYPE = "text/plain; charset=utf-8"


def output_route(dispatcher: OperationDispatcher) -> ScopedRoute:
    """The route that downloads the whole output of a run, as it is."""

    async def download(request: Request, context: RequestContext) -> ASGIApp:
        run_id = strict_json.plain(request.path_params["run_id"], "run_id")
        await dispatcher.run_in_thread(lambda: dispatcher.core.run(context.caller, run_id))
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(run_id, safe='')}.log"
        }
        return StreamingResponse(_pieces(dispatcher.core, run_id), 200, headers, MEDIA_TYPE)

    run_id = {"type": "string", "description": INPUTS["run_id"].meaning}
    documentation = Documentation(
        operation_id="output_file",
        summary="Download the output of a run as a file.",
        description="Needs the scope `read`. Of a run that works, the output so far.",
        tag="runs",
        parameters=(parameter("path", "run_id", run_id, required=True),),
        responses={200: {"description": "The output", "content": {"text/plain": {"schema": {}}}}},
        errors=(*ALWAYS, "invalid", "not_found"),
    )
    return ScopedRoute("GET", PATH, download, Scope.READ, documentation)


def _pieces(core: Core, run_id: str) -> Iterator[bytes]:
    offset = 0
    while piece := read_bytes(core.store, core.settings.data_dir, run_id, offset, MAX_BYTES):
        yield piece
        offset += len(piece)
