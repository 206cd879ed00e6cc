"""Webhooks: signed deliveries of events to other systems."""
