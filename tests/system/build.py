"""The Debian packages of this tree, built for the demo and the benchmarks."""

import os
from pathlib import Path

import machine
from debian_root import CACHE

PROJECT = Path(__file__).resolve().parents[2]


def prepare_machine(program: str) -> None:
    """Installs what building and throwaway hosts need."""
    if os.geteuid() != 0:
        raise SystemExit(f"{program}: throwaway hosts need root")
    machine.install([*machine.TO_BUILD, *machine.TO_PACKAGE, *machine.FOR_HOSTS])


def built_packages(program: str) -> list:
    """Builds the packages and returns their paths; what the build says is in the log, and shown if it fails."""
    log = CACHE / "log" / f"{Path(program).name}-packages.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as output:
        if not machine.run([PROJECT / "tests/packages"], output, log):
            raise SystemExit("\n".join(log.read_text().splitlines()[-40:]) + f"\n{program}: the build failed")
    return sorted((CACHE / "packages").glob("*.deb"))
