"""On which kind of file system a file lies."""

from __future__ import annotations

import re
from pathlib import Path

MOUNTS = Path("/proc/mounts")
"""Linux has it; elsewhere nothing is known."""

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|davfs"
    r"|fuse\.(sshfs|s3fs|glusterfs|ceph\S*|rclone|gcsfuse|davfs\S*|smb\S*|nfs\S*|goofys|blobfuse\S*)"
)


def is_network(file_system: str) -> bool:
    """Whether other hosts see the same files, so that locks cannot be relied on."""
    return _NETWORK.fullmatch(file_system) is not None


def file_system_of(path: Path) -> str | None:
    """The kind, as `mount` names it, or None when it cannot be found out."""
    try:
        mounts = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return None
    return find(path.resolve(), mounts)


def find(path: Path, mounts: str) -> str | None:
    """The kind of the innermost mount that the path lies in; of two at one place the later covers the other."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split(" ")
        depth = len(Path(_unescaped(point)).parts)
        if path.is_relative_to(_unescaped(point)) and (found is None or depth >= found[0]):
            found = (depth, kind)
    return None if found is None else found[1]


def _unescaped(point: str) -> str:
    """Spaces and the like are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
