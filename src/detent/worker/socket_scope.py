"""Closes the abstract sockets of the machine to this process, then becomes the program it is given.

Runs inside the sandbox as a script of its own, `socket_scope.py HOW PROGRAM ARGUMENT…`, with the
standard library alone. Abstract sockets belong to the network, which stays open, so bubblewrap does
not hide them. HOW is `auto`, `landlock` (Linux 6.12 and later: sockets of the sandbox's own
processes stay usable) or `seccomp` (older kernels: no unix socket can be created at all).
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
LANDLOCK_VERSION = 1
#: The first version of Landlock that can scope abstract sockets, and the flag that does.
SCOPES, SCOPE_ABSTRACT_UNIX_SOCKET = 6, 1
AF_UNIX = 1
#: By machine: the number of its ABI for audit, of `socket` and of `io_uring_setup`.
MACHINES = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
X32 = 0x40000000
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
#: Where a filter finds the number of the call, its machine and the first argument.
NUMBER, MACHINE, FIRST = 0, 4, 16
EXIT_CANNOT_RUN = 126

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 or less without it."""
    return int(_libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION))


def scope_by_landlock() -> None:
    """Connect only to abstract sockets of this process and those that it starts."""
    # No access to files or ports is handled, only the scope: three numbers of 64 bits.
    ruleset = struct.pack("=QQQ", 0, 0, SCOPE_ABSTRACT_UNIX_SOCKET)
    descriptor = _done(
        _libc.syscall(LANDLOCK_CREATE_RULESET, ruleset, ctypes.c_size_t(len(ruleset)), 0)
    )
    _done(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _done(_libc.syscall(LANDLOCK_RESTRICT_SELF, descriptor, 0))
    os.close(descriptor)


def refuse_by_seccomp() -> None:
    """Refuse to create unix sockets; pairs of connected ones and other families stay."""
    known = MACHINES.get(platform.machine())
    if known is None:
        raise OSError(errno.ENOSYS, f"no filter is known for {platform.machine()}")
    steps = _filter(*known)
    code = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    _done(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _done(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0))


def _filter(machine: int, socket: int, io_uring_setup: int) -> list[bytes]:
    """The steps; a jump says how many are passed over if it holds, and if it does not."""

    def step(code: int, value: int, holds: int = 0, fails: int = 0) -> bytes:
        return struct.pack("HBBI", code, holds, fails, value)

    return [
        step(LOAD, MACHINE),
        step(EQUAL, machine, 1),
        step(RETURN, KILL),
        step(LOAD, NUMBER),
        step(AT_LEAST, X32, 1),
        step(EQUAL, io_uring_setup, 0, 1),  # it could create sockets as well
        step(RETURN, ERRNO | errno.ENOSYS),
        step(EQUAL, socket, 1),
        step(RETURN, ALLOW),
        step(LOAD, FIRST),
        step(EQUAL, AF_UNIX, 0, 1),
        step(RETURN, ERRNO | errno.EACCES),
        step(RETURN, ALLOW),
    ]


def _done(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def main(how: str, argv: list[str]) -> None:
    scoped = how == "landlock" or (how == "auto" and landlock_version() >= SCOPES)
    try:
        if scoped:
            scope_by_landlock()
        else:
            refuse_by_seccomp()
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python itself, and it would be kept
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"detent sandbox: {argv[0]} was not started: {error}\n")
        sys.exit(127 if error.errno == errno.ENOENT else EXIT_CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
