"""Sets limits and opens the listeners of the network proxy, then becomes the program it is given.

Runs as a script of its own, `program_entry.py JSON PROGRAM ARGUMENT…`, with the standard library
alone; inside the sandbox if there is one. The keys of the JSON object:

- `limits`: by name of a limit of `resource`, as in `RLIMIT_CPU`, its soft and its hard value;
- `control`: the descriptor of a unix socket. The listeners are sent through it to the worker, which
  accepts their connections: sockets stay in the network namespace in which they were made;
- `port`: the port of the proxy, if it is not any free one;
- `ports`: ports of the loopback that the worker forwards, in addition to the proxy's own;
- `cgroup`: the file `cgroup.procs` of a cgroup, which this process joins;
- `join`: the id of a process whose network namespace is joined first, with its user namespace.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys

LOOPBACK = "127.0.0.1"
#: What programs read to find a proxy. Servers of the program's own are reached directly.
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
DIRECT = "localhost,127.0.0.1,::1"
EXIT_CANNOT_RUN = 126


def listener(port: int) -> socket.socket:
    """A listener on the loopback of this network namespace; port 0 is any free one."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((LOOPBACK, port))
    made.listen(128)
    return made


def proxy_variables(url: str) -> dict[str, str]:
    """The environment variables that tell programs where the proxy is."""
    direct = {"NO_PROXY": DIRECT, "no_proxy": DIRECT, "NODE_USE_ENV_PROXY": "1"}
    return {**dict.fromkeys(PROXY_VARIABLES, url), **direct}


def join_network(pid: int) -> None:
    """Join the network namespace of a process; its user namespace first, if it is another one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in ("user", "net"):
        own, other = (os.open(f"/proc/{each}/ns/{kind}", os.O_RDONLY) for each in ("self", pid))
        # A process cannot join the user namespace in which it is.
        if os.fstat(own).st_ino != os.fstat(other).st_ino and libc.setns(other, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        os.close(own)
        os.close(other)


def open_network(control: int, ports: list[int], port: int = 0) -> None:
    """Send the listeners to the worker, and tell the program where the proxy is."""
    # The named ports first: the kernel must not choose one of them for the proxy.
    forwarded = [listener(each) for each in ports]
    proxy = listener(port)
    url = f"http://{LOOPBACK}:{proxy.getsockname()[1]}"
    with socket.socket(fileno=control) as worker:
        made = [proxy, *forwarded]
        socket.send_fds(worker, [b"."], [each.fileno() for each in made])
        for each in made:
            each.close()
    os.environ.update(proxy_variables(url))


def set_limits(limits: dict[str, list[int]]) -> None:
    """Lower the limits of this process and of those that it starts; none is raised."""
    for name, (soft, hard) in limits.items():
        which = getattr(resource, name)
        most = resource.getrlimit(which)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(which, (soft, hard))


def main(options: str, argv: list[str]) -> None:
    given = json.loads(options)
    try:
        if "cgroup" in given:
            descriptor = os.open(given["cgroup"], os.O_WRONLY)
            os.write(descriptor, b"0")  # this process
            os.close(descriptor)
        if "join" in given:
            join_network(given["join"])
        if "control" in given:
            open_network(given["control"], given["ports"], given.get("port", 0))
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python itself, and it would be kept
            signal.signal(ignored, signal.SIG_DFL)
        set_limits(given.get("limits", {}))
        os.execvp(argv[0], argv)
    except OSError as error:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"detent: {argv[0]} was not started: {error}\n")
        sys.exit(127 if error.errno == errno.ENOENT else EXIT_CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
