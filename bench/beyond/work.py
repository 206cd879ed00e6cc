"""The app of the workers beyond one machine: `detent worker --app bench.beyond.work:app`."""

from bench.workloads.processes import application

app = application()
