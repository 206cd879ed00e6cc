"""A real Ray cluster on this machine, in a network namespace and a process namespace of its own.

All its processes end with the process that started it: they are in a process namespace whose first
process the kernel ends with its parent. Nothing of it can be reached from other namespaces, and it
cannot reach anything else.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Ray replaces 127.0.0.1 by the machine's address, and takes every other loopback address as it is.
HOST = "127.0.0.2"
OBJECT_STORE_BYTES = 100_000_000
SLOW_S = "300"
FIRST_PORT = 12_000


class RayCluster:
    """A cluster with a head node. Nodes can be added and killed."""

    def __init__(self, modules: Path | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
        paths = [str(ROOT), str(ROOT / "src"), *([str(modules)] if modules else [])]
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.directory),
            "RAY_memory_monitor_refresh_ms": "0",
            # A dead node is noticed after two seconds, not after twenty.
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "4",
            # A busy machine may take minutes to start a process.
            "RAY_raylet_start_wait_time_s": SLOW_S,
            "RAY_agent_register_timeout_ms": f"{SLOW_S}000",
            "RAY_worker_register_timeout_seconds": SLOW_S,
            "RAY_gcs_server_request_timeout_seconds": SLOW_S,
        }
        self.log = self.directory / "stderr"
        user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *("unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
                    *(sys.executable, "-m", "verification.ray_cluster"),
                ],
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            self.address: str = self._read()["address"]
        except BaseException:
            self.stop()
            raise

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before an argv that run it in the network namespace of the cluster."""
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        return ("nsenter", f"--target={self.process.pid}", *user, "--net")

    def add_node(self, **arguments: Any) -> int:
        """Add a node, with arguments of `ray.cluster_utils.Cluster.add_node`; its number.

        The environment variables `env_vars` are those of its raylet.
        """
        return int(self._call({"add": arguments})["node"])

    def kill_node(self, number: int) -> None:
        """End a node with SIGKILL."""
        self._call({"kill": number})

    def stop_head(self) -> None:
        """End the head node, and with it the cluster, with SIGKILL."""
        self._call({"kill": -1})

    def start_head(self, version: str = "") -> None:
        """Start a head node at the address of the one that ended; it knows nothing of before.

        With a version, the node says that it has this version of Ray.
        """
        self._call({"start": version})

    def _call(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        last = self.log.read_text("utf-8", "replace")[-2_000:]
        raise RuntimeError(f"the Ray cluster ended with {self.process.wait()}: {last}")

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes of the cluster."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None and self.process.stdout is not None:
            self.process.stdin.close()
            self.process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class NodeStart:
    """The arguments of a node, and the files that its raylet waits for.

    A raylet ends if its agents have not written their ports after 15 s, which a busy machine needs
    to start a Python process. The ports are known here, so this thread writes them first.
    """

    def __init__(self, number: int) -> None:
        self.node_id = f"{number:056x}"
        self.port = FIRST_PORT + number
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._write, daemon=True)

    def arguments(self) -> dict[str, Any]:
        """Arguments for `Cluster.add_node`."""
        return {
            "runtime_env_agent_port": self.port,
            "env_vars": {"RAY_OVERRIDE_NODE_ID_FOR_TESTING": self.node_id},
        }

    def __enter__(self) -> "NodeStart":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def _write(self) -> None:
        session = session_latest()
        none = ("dashboard_agent_listen_port", "metrics_agent_port", "metrics_export_port")
        ports = {**dict.fromkeys(none, -1), "runtime_env_agent_port": self.port}
        while not self.over.wait(0.1) and not (session / "sockets").exists():
            pass
        for name, port in ports.items():
            file = session / f"{name}_{self.node_id}"
            if session.exists() and not file.exists():
                file.write_text(str(port))


class ClusterServer:
    """The process that holds the cluster: starts and ends nodes as the commands on stdin say."""

    arguments: Mapping[str, Any] = {
        "node_ip_address": HOST,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "include_log_monitor": False,
    }

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.started = 0
        self.cluster = self.start_head(None)

    def serve(self) -> None:
        self._answer({"address": self.cluster.address})
        for line in sys.stdin:
            command = json.loads(line)
            if "add" in command:
                self.nodes.append(self.add_node(command["add"]))
                self._answer({"node": len(self.nodes) - 1})
            elif "start" in command:
                port = int(self.cluster.address.rpartition(":")[2])
                self.cluster = self.start_head(port, command["start"])
                self._answer({"address": self.cluster.address})
            else:
                self.kill_node(command["kill"])
                self._answer({"killed": command["kill"]})

    def start_head(self, port: int | None, version: str = "") -> Any:
        import ray
        from ray.cluster_utils import Cluster

        session_latest().unlink(missing_ok=True)
        own_version = ray.__version__
        ray.__version__ = version or own_version
        try:
            given = {"num_cpus": 1, "gcs_server_port": port}
            with self._node_start() as start:
                head = {**self.arguments, **start.arguments(), **given}
                return Cluster(initialize_head=True, head_node_args=head)
        finally:
            ray.__version__ = own_version

    def add_node(self, given: dict[str, Any]) -> Any:
        variables = given.pop("env_vars", {})
        with self._node_start() as start:
            made = {**self.arguments, **start.arguments(), **given}
            made["env_vars"] = {**made["env_vars"], **variables}
            return self.cluster.add_node(wait=False, **made)

    def kill_node(self, number: int) -> None:
        node = self.cluster.head_node if number < 0 else self.nodes[number]
        node.kill_all_processes(check_alive=False, allow_graceful=False)

    def _node_start(self) -> NodeStart:
        self.started += 1
        return NodeStart(self.started)

    def _answer(self, answer: dict[str, Any]) -> None:
        print(json.dumps(answer), flush=True)


def session_latest() -> Path:
    """The link to the directory of the session that was started last."""
    return Path(os.environ["RAY_TMPDIR"], "ray", "session_latest")


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    ClusterServer().serve()
