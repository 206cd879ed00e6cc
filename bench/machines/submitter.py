"""A client of gateways: submits at a steady rate whatever happens, and notes what was acknowledged.

`python -m bench.machines.submitter` reads its order as JSON from the command line, and writes a
line for each acknowledgement: when it came, and the job's id. It ends by itself.
"""

import json
import sys
import threading
import time
from typing import Any

from detent import Client

THREADS = 8
#: Enough to outlast a failover: pauses grow to half a minute.
RETRIES = 20


def submit(order: dict[str, Any]) -> None:
    """Each thread has a gateway; together they keep the rate."""
    begun, write = time.monotonic(), threading.Lock()

    def caller(number: int) -> None:
        gateway = order["gateways"][number % len(order["gateways"])]
        with Client(gateway["url"], gateway["token"], retries=RETRIES) as client:
            for turn in range(number, order["count"], THREADS):
                time.sleep(max(0.0, begun + turn / order["rate"] - time.monotonic()))
                job = client.submit("nothing", key=f"{order['name']}-{turn}")
                with write:
                    print(json.dumps([time.monotonic(), job.id]), flush=True)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    submit(json.loads(sys.argv[1]))
