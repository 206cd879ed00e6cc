"""What users import to test their own use of detent: `from detent.testing import Harness`.

Harness is loaded when it is first used, so that importing another module of this package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent.testing.harness import Harness

__all__ = ["Harness"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'detent.testing' has no attribute {name!r}")
    return getattr(import_module("detent.testing.harness"), name)
