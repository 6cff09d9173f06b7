"""Whole PAM transactions (pam_start, pam_authenticate, pam_end) of this module and its peers.

On a throwaway host, in one process that loads libpam and takes turns between them. Codes are good once, so each of our
transactions is another user's; the file of a peer's one user is put back before each of its own, untimed. pam_permit is
what libpam itself takes, loading a module included. What each round compares:

    memory     a local TOTP beside pam_oath and pam_google_authenticator, all with their state in memory (tmpfs)
    tokens     the same with 1,000 and 100,000 tokens of others enrolled on this host
    once       the daemon stopped: the module starts one for the answer
    server     a user whom only a server knows: nginx with one fixed answer, then a real privacyIDEA; beside a request
               alone, on a connection that is kept open
    disk       a local TOTP with all state on the file system of this checkout; ours and pam_oath wait until it is there
"""

import json
import tempfile
from pathlib import Path

from build import built_packages, prepare_machine
from debian_root import CACHE, debian_root
from host import Host, wait_for
from mounts import bring_in
from product import Product
from server import CA_FILE, Server

HERE = Path(__file__).resolve().parent
SEED = "3132333435363738393031323334353637383930"
BASE32 = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
STATE = "/var/lib/privacyidea-host"
OURS = "privacyidea-host"
PACKAGES = ("libpam-oath", "libpam-google-authenticator", "nginx-light", "python3")
NGINX_PORT = 11443
FIXED_ANSWER = json.dumps(
    {
        "detail": {"message": "matching 1 tokens", "serial": "SPASS0", "type": "spass"},
        "id": 2,
        "jsonrpc": "2.0",
        "result": {"authentication": "ACCEPT", "status": True, "value": True},
        "version": "privacyIDEA 3.14",
    }
)
PEERS = {
    "pam_oath": {
        "service": "bench-pam_oath",
        "file": ["/root/peers/oath", f"HOTP/T30 bench0 - {SEED}\n"],
        "totp": SEED,
        "user": "bench0",
    },
    "pam_google_authenticator": {
        "service": "bench-pam_google_authenticator",
        "file": ["/root/peers/google", f'{BASE32}\n" DISALLOW_REUSE\n" TOTP_AUTH\n'],
        "totp": SEED,
        "user": "root",
    },
    "pam_permit": {"service": "bench-pam_permit", "text": "", "user": "root"},
}


def measure(options):
    """Rows in milliseconds."""
    prepare_machine("tests/bench")
    if options.packages:
        packages = sorted(options.packages.glob("*.deb"))
    else:
        print("tests/bench: building the packages (minutes the first time)", flush=True)
        packages = built_packages("tests/bench")
    with tempfile.TemporaryDirectory(dir=CACHE) as disk, Host(debian_root(options.suite, PACKAGES)) as host:
        host.install(packages)
        bench = Bench(host, options)
        yield from bench.local("state in memory")
        yield from bench.more_tokens(1_000)
        yield from bench.more_tokens(100_000)
        yield from bench.without_the_daemon()
        yield from bench.at_servers()
        bench.move_to(Path(disk))
        yield from bench.local("state on the disk")


class Bench:
    """One host, round after round."""

    def __init__(self, host: Host, options):
        self.host = host
        self.n = options.n
        self.users = [f"bench{number}" for number in range(self.n)]
        # A module that the person has named, as a pam.d line does.
        self.other = options.module
        self.product = Product(host)
        self._prepare()
        self.product.start()

    def _prepare(self) -> None:
        host = self.host
        names = [*self.users, "carla"]
        lines = [f"{name}:x:{uid}:{uid}::/home/{name}:/bin/sh\n" for uid, name in enumerate(names, start=70000)]
        host.write("/etc/privacyidea-host/users/passwd", "".join(lines))
        host.run("privacyidea-host cache flush && mkdir -m 700 /root/peers")
        modules = {
            OURS: "pam_privacyidea.so",
            "pam_oath": "pam_oath.so usersfile=/root/peers/oath window=5 digits=6",
            "pam_google_authenticator": "pam_google_authenticator.so secret=/root/peers/google user=root",
            "pam_permit": "pam_permit.so",
            "other": self.other or "pam_deny.so",
        }
        for who, module in modules.items():
            host.write(f"/etc/pam.d/bench-{who}", f"auth required {module}\naccount required pam_permit.so\n")
        host.write("/root/pam_driver.py", (HERE / "pam_driver.py").read_text())

    def local(self, where: str):
        """A local TOTP beside the peers that check one."""
        self._enrol()
        yield from self._rows(f"local TOTP, {where}", [self._ours(), *PEERS], self.n)

    def more_tokens(self, count: int):
        """The same with tokens of `count` others in the database; pam_oath's file keeps its one user."""
        print(f"tests/bench: {count} tokens", flush=True)
        self.product.stop()
        self.host.run(["python3", "-c", MORE_TOKENS, f"{STATE}/state.db", str(count)], timeout=120)
        self.product.start()
        self._enrol()
        yield from self._rows(f"local TOTP, {count} other tokens", [self._ours(), "pam_oath"], self.n)

    def without_the_daemon(self):
        """Each transaction starts a daemon of its own."""
        self._enrol()
        self.product.stop()
        yield from self._rows("local TOTP, daemon stopped", [self._ours(), "pam_oath"], min(self.n, 100))
        self.product.start()

    def move_to(self, disk: Path) -> None:
        """From now on the state is in `disk`."""
        self.product.stop()
        bring_in(self.host, disk, "/srv")
        self.host.run(
            f"mkdir -m 700 /srv/peers && install -d -m 700 -o _privacyidea -g _privacyidea /srv/state && "
            f"mount --bind /srv/state {STATE} && mount --bind /srv/peers /root/peers"
        )
        self.product.start()

    def at_servers(self):
        """nginx, which says yes to everything: what is left is the client's time; then a real server, at most a hundred
        times, because it takes its time."""
        server = Server(self.host)
        self._start_nginx(Path(server.facts["ca_file"]).parent)
        pin = server.pin("carla")
        self.product.configure(f'[server]\nurl = "https://127.0.0.1:{NGINX_PORT}"\nca-file = "{CA_FILE}"\n')
        yield from self._rows("checked by a fixed answer", self._at_the_server(NGINX_PORT, pin), self.n)
        self.product.configure(server.settings())
        contestants = self._at_the_server(server.facts["port"], pin)
        yield from self._rows("checked by privacyIDEA", contestants, min(self.n, 100))
        server.down()
        self.product.configure("")

    def _start_nginx(self, tls: Path) -> None:
        """With the certificate of the real server, which is for this address."""
        for name in ("server.pem", "server.key"):
            self.host.write(f"/root/{name}", (tls / name).read_text(), 0o600)
        self.host.write("/root/nginx.conf", NGINX.replace("PORT", str(NGINX_PORT)).replace("ANSWER", FIXED_ANSWER))
        self.host.run("nginx -c /root/nginx.conf")
        connect = f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{NGINX_PORT}'"
        wait_for(lambda: self.host.run(connect, check=False).returncode == 0, 10, "nginx")

    def _at_the_server(self, port: int, pin: str) -> list:
        body = json.dumps({"user": "carla", "pass": pin})
        request = {"port": port, "ca": CA_FILE, "body": body}
        by_pin = {"user": "carla", "text": pin}
        contestants = {OURS: {"service": f"bench-{OURS}", **by_pin}, "request alone": {"request": request}}
        if self.other:
            contestants[self.other.split()[0].rsplit("/", 1)[-1]] = {"service": "bench-other", **by_pin}
        return [*contestants.items(), "pam_permit"]

    def _ours(self):
        return OURS, {"service": f"bench-{OURS}", "totp": SEED, "users": self.users}

    def _enrol(self) -> None:
        """A new token for everybody, so that no code is used."""
        print(f"tests/bench: enrolling {self.n} tokens", flush=True)
        for user in self.users:
            enrol = ("token", "enrol", user, "--no-verify", "--seed-from-stdin", "--json")
            self.product.command(*enrol, input=f"{BASE32}\n")

    def _rows(self, what: str, contestants: list, n: int):
        plan = dict(one if isinstance(one, tuple) else (one, PEERS[one]) for one in contestants)
        self.host.write("/root/plan.json", json.dumps(plan))
        print(f"tests/bench: {what}", flush=True)
        times = json.loads(self.host.output(["python3", "/root/pam_driver.py", "/root/plan.json", str(n)], timeout=900))
        for who, milliseconds in times.items():
            yield what, who, milliseconds, "ms"


MORE_TOKENS = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    columns = [row[1] for row in database.execute("pragma table_info(tokens)")]
    rest = ", ".join(column for column in columns if column not in ("serial", "user"))
    database.execute("delete from tokens where user like 'other%'")
    database.execute(
        f"with recursive number(i) as (select 1 union all select i + 1 from number where i < ?) "
        f"insert into tokens (serial, user, {rest}) select 'OTHER' || i, 'other' || i, {rest} "
        f"from number, (select * from tokens limit 1)", [int(sys.argv[2])])
"""

NGINX = """\
pid /run/nginx-bench.pid;
error_log /root/nginx-error.log;
worker_processes 1;
events {}
http {
    access_log off;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:PORT ssl;
        ssl_certificate /root/server.pem;
        ssl_certificate_key /root/server.key;
        ssl_protocols TLSv1.3;
        location / { default_type application/json; return 200 'ANSWER'; }
    }
}
"""
