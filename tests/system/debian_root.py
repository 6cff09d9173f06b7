"""A Debian root directory for throwaway hosts, built once with mmdebstrap and kept in .cache/.

It is never changed after that: every host puts an overlay over it. What the packages of the project depend on is in it,
so that `apt install ./*.deb` needs no network.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
CACHE = PROJECT / ".cache"

PACKAGES = [
    "adduser",
    "ca-certificates",
    "dbus",
    "iproute2",
    "libpam-modules",
    "libpam-runtime",
    "libpam-systemd",
    "login",
    "openssh-client",
    "openssh-server",
    "passwd",
    "pamtester",
    "procps",
    "sshpass",
    "strace",
    "sudo",
    "systemd",
    "systemd-sysv",
]

# `olaf` is the administrator of the throwaway host: a local account with a password and sudo.
CUSTOMIZE = textwrap.dedent(
    """\
    set -e
    root=$1
    echo testhost >"$root/etc/hostname"
    printf '127.0.0.1 localhost testhost\\n::1 localhost\\n' >"$root/etc/hosts"
    : >"$root/etc/fstab"
    chroot "$root" useradd --create-home --shell /bin/bash --groups sudo olaf
    echo olaf:local-password | chroot "$root" chpasswd
    # The kernel is this machine's: no host loads modules into it.
    chroot "$root" systemctl mask systemd-modules-load.service apt-daily.timer \\
        apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer getty@tty1.service systemd-resolved.service \\
        systemd-timesyncd.service >/dev/null 2>&1
    # From here on the host has no network, and apt needs none: everything is in ./*.deb.
    : >"$root/etc/apt/sources.list"
    rm -f "$root"/etc/apt/sources.list.d/*
    rm -f "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
    printf 'APT::Install-Recommends "false";\\nDPkg::Use-Pty "false";\\n' >"$root/etc/apt/apt.conf.d/99tests"
    printf 'force-unsafe-io\\n' >"$root/etc/dpkg/dpkg.cfg.d/tests"
    """
)


def debian_root(suite: str = "bookworm", more: tuple = ()) -> Path:
    """The root directory of `suite`, with `more` packages in it, built now if it is not in the cache."""
    packages = sorted({*PACKAGES, *more})
    recipe = hashlib.sha256(("\n".join(packages) + CUSTOMIZE).encode()).hexdigest()[:12]
    root = CACHE / "roots" / f"{suite}-{recipe}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with open(root.parent / f"{suite}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            _build(suite, packages, root)
    return root


def _build(suite: str, packages: list, root: Path) -> None:
    print(f"Building a Debian root ({suite}) in {root}: about a minute the first time.", file=sys.stderr, flush=True)
    archives = CACHE / "archives" / suite
    archives.mkdir(parents=True, exist_ok=True)
    unfinished = root.with_name(root.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    customize = CACHE / "roots" / f"customize-{suite}"
    customize.write_text(CUSTOMIZE)
    command = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        "--include=" + ",".join(packages),
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=force-unsafe-io",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=APT::Install-Recommends "false"',
        "--skip=download/empty",
        "--skip=essential/unlink",
        '--setup-hook=mkdir -p "$1/var/cache/apt/archives"',
        f"--setup-hook=sync-in {archives} /var/cache/apt/archives",
        f"--customize-hook=sync-out /var/cache/apt/archives {archives}",
        f'--customize-hook=sh {customize} "$1"',
        suite,
        str(unfinished),
    ]
    subprocess.run(command, check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    shutil.rmtree(unfinished / "var/cache/apt/archives", ignore_errors=True)
    (unfinished / "var/cache/apt/archives/partial").mkdir(parents=True)
    unfinished.rename(root)


if __name__ == "__main__":
    print(debian_root(*sys.argv[1:2]))
