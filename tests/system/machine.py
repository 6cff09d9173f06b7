"""What the tests and the demo need on this machine, and long commands that show that they are alive."""

import os
import subprocess
from pathlib import Path

# Debian packages by what they are for.
TO_BUILD = ["gcc", "libc6-dev", "make", "libpam0g-dev", "git"]
TO_PACKAGE = ["dpkg-dev", "debhelper", "dh-nss"]
FOR_HOSTS = ["mmdebstrap", "iproute2", "util-linux", "mount"]


def install(wanted: list) -> list:
    """Installs what is missing of these Debian packages; says which."""
    missing = [package for package in wanted if not _is_installed(package)]
    if missing:
        if os.geteuid() != 0:
            raise RuntimeError("not root, and packages are missing: apt-get install " + " ".join(missing))
        print(f"    installing Debian packages on this machine: {' '.join(missing)}", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
            done = subprocess.run(["apt-get", "--quiet", *command], env=environment, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"apt-get {command[0]} failed:\n{done.stdout}{done.stderr}")
    return missing


def run(command: list, log, path: Path) -> bool:
    """Runs a command with its output in an open log, whose last line it shows every half minute."""
    command = [str(argument) for argument in command]
    print("+", " ".join(command), file=log, flush=True)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    waited = 0
    while True:
        try:
            return process.wait(30) == 0
        except subprocess.TimeoutExpired:
            waited += 30
            lines = path.read_text(errors="replace").splitlines()
            print(f"    … {waited} s: {lines[-1].strip()[:90] if lines else ''}", flush=True)
        except BaseException:
            process.terminate()
            process.wait()
            raise


def _is_installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    return subprocess.run(query, capture_output=True, text=True).stdout == "installed"
