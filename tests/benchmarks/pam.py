"""Whole PAM transactions (pam_start, pam_authenticate, pam_end) with a local TOTP, beside pam_oath.

In a throwaway Debian root, in one process that loads libpam, by turns: a transaction with pam_privacyidea (through the
socket to the daemon), one with pam_oath, one with pam_permit, which is what libpam itself takes. A code is good once, so
each of our transactions is another user's; pam_oath's file of one user is put back before each of its own, untimed.

First both keep their state in memory (tmpfs), so that the figures are the programs' own; then both keep it on the file
system of this checkout, and wait until the disk has it.
"""

import json
import tempfile
from pathlib import Path

from build import built_packages, prepare_machine
from debian_root import CACHE, debian_root
from host import Host
from mounts import bring_in
from product import Product

HERE = Path(__file__).resolve().parent
SEED = "3132333435363738393031323334353637383930"
BASE32 = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
STATE = "/var/lib/privacyidea-host"


def measure(options):
    """Rows in milliseconds."""
    n = options.n
    prepare_machine("tests/bench")
    if options.packages:
        packages = sorted(options.packages.glob("*.deb"))
    else:
        print("tests/bench: building the packages (minutes the first time)", flush=True)
        packages = built_packages("tests/bench")
    print(f"tests/bench: a throwaway host, {n} users with a token each", flush=True)
    with (
        tempfile.TemporaryDirectory(dir=CACHE) as disk,
        Host(debian_root(options.suite, ("libpam-oath", "python3"))) as host,
    ):
        host.install(packages)
        product = Product(host)
        product.start()
        _prepare(host, n)
        yield from _rows("state in memory", _measure(product, n))
        product.stop()
        bring_in(host, Path(disk), "/srv")
        host.run(
            f"mkdir /srv/oath && install -d -m 700 -o _privacyidea -g _privacyidea /srv/state && "
            f"mount --bind /srv/state {STATE} && mount --bind /srv/oath /root/oath"
        )
        product.start()
        yield from _rows("state on the disk", _measure(product, n))
        product.stop()


def _rows(where: str, times: dict):
    for who, milliseconds in times.items():
        check = "no check" if who == "pam_permit" else "local TOTP"
        yield f"PAM transaction, {check}, {where}", who, milliseconds, "ms"


def _users(n: int) -> list:
    return [f"bench{number}" for number in range(n)]


def _prepare(host: Host, n: int) -> None:
    ids = range(70000, 70000 + n)
    lines = [f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n" for name, uid in zip(_users(n), ids)]
    host.write("/etc/privacyidea-host/users/passwd", "".join(lines))
    host.run("privacyidea-host cache flush && mkdir -m 700 /root/oath")
    for who, module in (
        ("privacyidea-host", "pam_privacyidea.so"),
        ("pam_oath", "pam_oath.so usersfile=/root/oath/users window=5 digits=6"),
        ("pam_permit", "pam_permit.so"),
    ):
        host.write(f"/etc/pam.d/bench-{who}", f"auth required {module}\naccount required pam_permit.so\n")
    host.write("/root/pam_driver.py", (HERE / "pam_driver.py").read_text())


def _measure(product: Product, n: int) -> dict:
    """Milliseconds of each transaction by who made it; every token is new."""
    for user in _users(n):
        product.command("token", "enrol", user, "--no-verify", "--seed-from-stdin", "--json", input=f"{BASE32}\n")
    return json.loads(product.host.output(["python3", "/root/pam_driver.py", str(n), SEED], timeout=600))
