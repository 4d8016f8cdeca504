"""Video in and out: exact time, frames as a stream, files that nobody vouches for.

Import from the modules: `reader` (open, probe), `writer`, `limits`, `sampling`, `transforms`.
"""
