"""Protocols: which anonymizer is scored by which tasks and attacks on which data, beside what the papers printed."""
