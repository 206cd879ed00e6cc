"""How busy the main thread of a page was, in processor time, which other work does not prolong."""

import json

from playwright.sync_api import CDPSession


def longest_ms(trace: bytes) -> float:
    """The longest time that the main thread of a page was at one thing."""
    events = json.loads(trace)["traceEvents"]
    main = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        each["tdur"]
        for each in events
        if each["name"] == "ThreadControllerImpl::RunTask"
        and (each["pid"], each["tid"]) in main
        and "tdur" in each
    ]
    return float(max(tasks)) / 1_000


def busy_s(session: CDPSession) -> float:
    """Processor time of the page's main thread."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")
