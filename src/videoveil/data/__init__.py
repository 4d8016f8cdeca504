"""Typed records, one small file per dataset, and the theatre that renders a synthetic twin of each."""
