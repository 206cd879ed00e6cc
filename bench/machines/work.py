"""The app of the workers on several machines: `detent worker --app bench.machines.work:app`."""

from bench.workloads.processes import application

app = application()
