"""Handlers of Python functions: a detent worker executes them, or with the option `ray` Ray."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from detent.app.arguments import Parameters
from detent.app.async_run_context import AsyncRun
from detent.app.handlers import FunctionHandler, RayHandler
from detent.app.ray_options import ray_options
from detent.app.ray_run import RayRun
from detent.app.run_context import Run
from detent.errors import Invalid

#: The option of an intent that executes its function on a Ray cluster.
RAY = "ray"


def handler_of(
    intent: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> tuple[dict[str, Any], FunctionHandler | RayHandler]:
    """The handler of an intent's function, and the options of every intent."""
    rest = {name: value for name, value in options.items() if name != RAY}
    if RAY in options:
        return rest, _ray_handler(intent, function, options[RAY])
    return rest, _function_handler(function)


def _function_handler(function: Callable[..., Any]) -> FunctionHandler:
    """The handler of a function that a detent worker calls or awaits."""
    asynchronous = inspect.iscoroutinefunction(function)
    parameters = Parameters(function, (AsyncRun if asynchronous else Run,))
    return FunctionHandler(function, parameters, asynchronous)


def _ray_handler(intent: str, function: Callable[..., Any], options: object) -> RayHandler:
    """The handler of an intent with the option `ray`; Invalid if nodes cannot import it."""
    where = f"intent {intent}: {RAY}"
    module, name = function.__module__, function.__qualname__
    if inspect.iscoroutinefunction(function):
        raise Invalid(
            f"{where}: {name} is an async function. Ray executes plain functions: write it with "
            "`def`.",
            field=RAY,
        )
    if module == "__main__" or "<" in name:
        raise Invalid(
            f"{where}: the nodes of the cluster cannot import {module}:{name}. Define the function "
            "at the top level of a module, and install that module on the nodes.",
            field=RAY,
            given=f"{module}:{name}",
        )
    reference, checked = f"{module}:{name}", ray_options(options, where)
    return RayHandler(function, Parameters(function, (RayRun,)), reference, checked)
