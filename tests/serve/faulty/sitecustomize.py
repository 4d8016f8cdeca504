"""Read by every Python that has this folder on its path: workers of a service then know the faulty anonymizers.

With VEIL_TEST_SMALL, workers cannot write files larger than that: for them the disk is full. With VEIL_TEST_READ_ONLY,
that folder is read-only for them (and for nobody else: they get a view of the file system of their own).
"""

import ctypes
import os
import resource
import sys

if "videoveil.serve.foreman" in sys.orig_argv:
    from tests.pipeline.faults import register

    register()
    if folder := os.environ.get("VEIL_TEST_READ_ONLY"):
        libc, place = ctypes.CDLL(None, use_errno=True), folder.encode()
        NEW_NAMES, PRIVATE, BIND, READ_ONLY = 0x20000, 1 << 18 | 1 << 14, 1 << 12, 1 << 5 | 1 << 12 | 1
        libc.unshare(NEW_NAMES)
        libc.mount(None, b"/", None, PRIVATE, None)
        libc.mount(place, place, None, BIND, None)
        if libc.mount(None, place, None, READ_ONLY, None) != 0:
            sys.exit(f"cannot make {folder} read-only: {os.strerror(ctypes.get_errno())}")
    if small := os.environ.get("VEIL_TEST_SMALL"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(small), int(small)))
