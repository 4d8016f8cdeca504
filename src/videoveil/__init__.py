"""Videoveil keeps what happens in a video and hides who it happens to."""

__version__ = "0.1.0"
