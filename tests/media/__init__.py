"""Tests of reading and writing video."""
