"""The pages that a fork writes to: known from one fork, another has them copied in advance.

A fork shares its pages until it writes to them; then the kernel stops it and copies the page. What
a fork writes to depends on what it does, not on when, so the next one can do that while it waits.
"""

import os
import resource
from array import array
from collections.abc import Callable
from contextlib import suppress

from outrider.processes.reaping import libc

_POPULATE_WRITE = 23
_PAGE_BYTES = resource.getpagesize()
_IS_PRESENT, _IS_OF_FILE, _IS_ONLY_HERE = 1 << 63, 1 << 61, 1 << 56


def pages_written_by(run: Callable[[], None]) -> bytes:
    """Run a function in a fork, and return the pages that it doesn't share any more."""
    with open("/proc/self/maps") as maps:
        regions = [line.split()[0].split("-") for line in maps if " rw-p " in line]
    run()
    found = array("Q")
    with suppress(OSError), open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for begin, end in ([int(address, 16) // _PAGE_BYTES for address in at] for at in regions):
            flags = array("Q", os.pread(pagemap.fileno(), 8 * (end - begin), 8 * begin))
            for page, flag in enumerate(flags, begin):
                is_own = flag & _IS_PRESENT and flag & _IS_ONLY_HERE and not flag & _IS_OF_FILE
                if is_own and found and found[-1] == page:
                    found[-1] += 1
                elif is_own:
                    found.extend((page, page + 1))
    return found.tobytes()


def copy_pages(pages: bytes) -> bool:
    """Have the kernel copy these pages now; return whether it knows how to (Linux 5.14)."""
    import ctypes

    madvise = libc()["madvise"]
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    ends = [page * _PAGE_BYTES for page in array("Q", pages)]
    ranges = zip(ends[::2], ends[1::2], strict=True)
    return 0 in [madvise(begin, end - begin, _POPULATE_WRITE) for begin, end in ranges]
