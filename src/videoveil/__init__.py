"""Videoveil keeps what happens in a video and hides who it happens to."""
