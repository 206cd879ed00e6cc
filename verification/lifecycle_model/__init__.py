"""The TLA+ model of a lifecycle, compared with the real kernel and with real event logs."""
