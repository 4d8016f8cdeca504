"""Verbs of the command line that are more than a few lines; `cli` hooks them in."""
