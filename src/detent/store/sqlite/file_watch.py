"""Watches a file for writes of any process with inotify, where it is available."""

import ctypes
import os
import sys
from pathlib import Path

#: Of <sys/inotify.h>: the file was written to.
MODIFIED = 0x2


def watch(file: Path) -> int | None:
    """A descriptor that can be read whenever the file was written to.

    None where that cannot be had: on another system than Linux, or when the user has used up the
    watches that the system allows.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(file), MODIFIED) < 0:
        os.close(descriptor)
        return None
    return descriptor
