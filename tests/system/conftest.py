"""What the system tests share: the built packages and throwaway hosts with them installed."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from debian_root import CACHE, debian_root  # noqa: E402
from host import Host  # noqa: E402
from product import Product  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--suite", default="bookworm", help="the Debian release of the throwaway hosts")
    parser.addoption("--packages", default=str(CACHE / "packages"), help="the directory of the .deb files")


@pytest.fixture(scope="session")
def packages(request) -> list:
    """The .deb files that tests/packages built."""
    directory = Path(request.config.getoption("--packages"))
    found = sorted(directory.glob("*.deb"))
    assert len(found) == 4, f"{len(found)} packages in {directory}: run tests/packages first"
    return found


@pytest.fixture(scope="session")
def root(request) -> Path:
    """A Debian root for hosts; it stays as it is."""
    assert os.geteuid() == 0, "throwaway hosts need root"
    return debian_root(request.config.getoption("--suite"))


@pytest.fixture
def bare(root):
    """A host without systemd and with nothing of ours."""
    with Host(root) as host:
        yield host


@pytest.fixture
def bare_systemd(root):
    """A host with systemd and with nothing of ours."""
    with Host(root, systemd=True) as host:
        yield host


@pytest.fixture(scope="module")
def product(root, packages):
    """A host without systemd, with the packages installed and the daemon started by hand; for a whole module."""
    with Host(root) as host:
        host.install(packages)
        product = Product(host)
        product.start()
        yield product


@pytest.fixture(scope="module")
def booted(root, packages):
    """A host that systemd booted, with the packages installed; for a whole module."""
    with Host(root, systemd=True) as host:
        host.install(packages)
        yield Product(host)
