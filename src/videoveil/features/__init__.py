"""The feature store (what frozen encoders saw, keyed by content) and the extraction that fills it."""
