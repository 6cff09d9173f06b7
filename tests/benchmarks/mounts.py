"""Directories of this machine on a throwaway host."""

import ctypes
import os
from pathlib import Path

from host import Host

# Of every architecture of Linux, since 5.2.
OPEN_TREE, MOVE_MOUNT = 428, 429
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 1, 4, -100
LIBC = ctypes.CDLL(None, use_errno=True)


def bring_in(host: Host, directory: Path, path: str) -> None:
    """Mounts `directory` at `path` of the host, whose mount namespace this machine's paths are not in."""
    tree = _call(OPEN_TREE, AT_FDCWD, os.fsencode(directory), OPEN_TREE_CLONE)
    namespace = os.open(f"/proc/{host.pid}/ns/mnt", os.O_RDONLY)
    child = os.fork()
    if child == 0:
        try:
            _call_libc(LIBC.setns(namespace, 0))
            _call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(path), MOVE_MOUNT_F_EMPTY_PATH)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(tree)
    os.close(namespace)
    assert os.waitpid(child, 0)[1] == 0, f"{directory} could not be mounted at {path} of the host"


def _call(number: int, *arguments) -> int:
    return _call_libc(LIBC.syscall(number, *arguments))


def _call_libc(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
