"""A real privacyIDEA server in the network namespace of a throwaway host (tests/privacyidea/server)."""

import json
import subprocess
import sys

from debian_root import CACHE, PROJECT
from host import Host

HOME = CACHE / "privacyidea-hosts"
CA_FILE = "/etc/privacyidea-host/server-ca.pem"


class Server:
    """Starts it, tells what it knows, stops it. Its files are this machine's, its address is the host's loopback."""

    def __init__(self, host: Host):
        self.host = host
        # First on this machine, which has a network: what is not installed yet comes from the Python registry.
        for command in ("up", "down"):
            self._call(command, HOME, network=[])
        self.up()
        self.facts = json.loads((HOME / "facts.json").read_text())
        host.write(CA_FILE, open(self.facts["ca_file"]).read(), 0o644)

    def settings(self, ca_file: str = CA_FILE, more: str = "") -> str:
        """config.toml for this server."""
        return f'[server]\nurl = "{self.facts["url"]}"\nca-file = "{ca_file}"\n{more}'

    def up(self) -> None:
        self._call("up", HOME, "--until-exit-of", self.host.pid)

    def down(self) -> None:
        self._call("down", HOME)

    def pin(self, user: str) -> str:
        return self.facts["users"][user]["pin"]

    def otp(self, user: str) -> str:
        """The PIN and the next unused code of the user's first token."""
        return self._call("otp", HOME, user)

    def phone(self, user: str, *options: str) -> subprocess.Popen:
        """The user's phone, which answers the next push question."""
        command = [sys.executable, PROJECT / "tests/privacyidea/server", "phone", HOME, user, *options]
        network = ["nsenter", f"--target={self.host.pid}", "--net", "--"]
        return subprocess.Popen([*network, *map(str, command)])

    def audit(self, rows: int = 10) -> list:
        """What the server noted, newest first."""
        return [json.loads(line) for line in self._call("audit", HOME, rows).splitlines()]

    def _call(self, *arguments, network: list | None = None) -> str:
        command = [sys.executable, PROJECT / "tests/privacyidea/server", *arguments]
        if network is None:
            network = ["nsenter", f"--target={self.host.pid}", "--net", "--"]
        done = subprocess.run([*network, *map(str, command)], stdout=subprocess.PIPE, text=True, timeout=600)
        assert done.returncode == 0, f"{arguments[0]}: {done.returncode}"
        return done.stdout.rstrip("\n")
