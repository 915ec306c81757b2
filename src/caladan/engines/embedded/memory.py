"""How much memory a run may use: most of what the machine, or the container, has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_SHARE: Final = 0.7
_CGROUPS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def budget() -> int:
    """Bytes: 70 % of the memory that this process can have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUPS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return int(total * _SHARE)
