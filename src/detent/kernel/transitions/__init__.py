"""State transitions that commands and couplings share, one module for each topic. Pure.

A coupling calls its function with the draft and the event that caused it (`record`).
"""
