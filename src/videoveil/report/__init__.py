"""Figures and pages that people read."""
