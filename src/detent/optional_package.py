"""Imports of an optional package; an error says what to install if it cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from detent.errors import Misconfigured


@contextmanager
def optional_package(name: str, minimum: str, extra: str) -> Iterator[None]:
    """Import from the package in this block. Misconfigured if it cannot be used."""
    installed = _installed(name)
    if installed is None:
        raise _unusable(f"the package {name} is not installed", name, extra)
    if _numbers(installed) < _numbers(minimum):
        raise _unusable(f"{name} {installed} is too old: {minimum} is needed", name, extra)
    try:
        yield
    except ImportError as error:
        why = f"{name} {installed} cannot be used: {error}"
        raise _unusable(why, name, extra) from error


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """The first three numbers of a version."""
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def _unusable(why: str, name: str, extra: str) -> Misconfigured:
    return Misconfigured(
        f"detent[{extra}]: {why}.",
        setting=name,
        hint=f"Install a supported version with: pip install --upgrade 'detent[{extra}]'",
    )
