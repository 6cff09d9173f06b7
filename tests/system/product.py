"""The installed product as an administrator and a person at a login meet it."""

import json

from host import Host, wait_for
from otp import Authenticator

# The program of the package that runs a PAM stack and reports each phase's code.
PAM_TRANSACTION = "/usr/libexec/privacyidea-host/pam-transaction"

# As docs/administrators-guide.md has it: a code instead of the password, but for the group `password-login`.
AUTH_LINES = """\
auth     [success=1 default=ignore]               pam_succeed_if.so quiet user ingroup password-login
auth     [success=done ignore=ignore default=die] pam_privacyidea.so
"""
SSHD_PAM = f"""\
{AUTH_LINES}@include common-auth
account  required                                 pam_nologin.so
account  [success=ok ignore=ignore default=die]   pam_privacyidea.so
@include common-account
session  required                                 pam_loginuid.so
@include common-session
session  optional                                 pam_mkhomedir.so
@include common-password
"""


class Product:
    """Commands and logins on one host."""

    def __init__(self, host: Host):
        self.host = host
        self._daemon = None
        self._sshd = None

    # The daemon and sshd.

    def start(self) -> None:
        """Starts the daemon: by systemd, or by hand as the documentation says."""
        if self.host.systemd:
            self.host.run("systemctl start privacyidea-cached")
        else:
            self._daemon = self.host.start("exec /usr/sbin/privacyidea-cached")
        wait_for(lambda: self.host.path("/run/privacyidea-host/lookup.sock").exists(), 10, "the daemon")

    def stop(self) -> None:
        """Stops the daemon, and with systemd its socket too."""
        if self.host.systemd:
            self.host.run("systemctl stop privacyidea-cached.socket privacyidea-cached.service")
        else:
            self.host.run("start-stop-daemon --stop --retry 5 --exec /usr/sbin/privacyidea-cached")
            self._daemon.wait(10)

    def pid(self) -> str:
        """The running daemon's process; another one after a crash."""
        return self.host.output("pgrep --full --exact /usr/sbin/privacyidea-cached")

    def restart(self) -> None:
        """Stops and starts the daemon: new settings."""
        self.stop()
        self.start()

    def configure(self, text: str) -> None:
        """Writes config.toml (in place: owner and mode stay) and restarts the daemon."""
        self.host.write("/etc/privacyidea-host/config.toml", text)
        self.restart()

    def serve_ssh(self, pam: str = SSHD_PAM) -> None:
        """An sshd that asks for one-time passwords, by both methods that go through PAM."""
        self.host.run("groupadd --force --system password-login && usermod --append --groups password-login olaf")
        self.host.write("/etc/pam.d/sshd", pam)
        settings = "KbdInteractiveAuthentication yes\nPasswordAuthentication yes\nUsePAM yes\nMaxAuthTries 20\n"
        # Debian 13's sshd shuts an address out after some refusals, before PAM is asked; Debian 12's does not know the word.
        if "persourcepenalties" in self.host.output("mkdir -p /run/sshd; /usr/sbin/sshd -T"):
            settings += "PerSourcePenalties no\n"
        self.host.write("/etc/ssh/sshd_config.d/otp.conf", settings)
        if self.host.systemd:
            self.host.run("systemctl restart ssh")
        else:
            self.host.run("/usr/sbin/sshd")
        wait_for(lambda: self.host.run("ssh-keyscan -T 1 127.0.0.1", check=False).stdout, 10, "sshd")

    # Administration.

    def command(self, *arguments, **options):
        """Runs privacyidea-host."""
        return self.host.run(["privacyidea-host", *arguments], **options)

    def json(self, *arguments, **options):
        """Runs privacyidea-host --json and reads its answer."""
        return json.loads(self.command(*arguments, "--json", **options).stdout)

    def add_user(self, name: str, *arguments) -> None:
        """A person in the users file."""
        self.command("user", "add", name, "--home", f"/home/{name}", "--shell", "/bin/bash", *arguments)

    def enrol(self, user: str, *arguments, **options) -> Authenticator:
        """A token for `user`, ready for use."""
        answer = self.json("token", "enrol", user, "--no-verify", *arguments, **options)
        return Authenticator.scan(answer["otpauth"])

    # Logins.

    def transaction(self, service: str, user: str, *answers: str, arguments: tuple = (), caller: str | None = None) -> dict:
        """Runs a PAM stack without sshd around it, as root or as `caller`; what pam-transaction reports."""
        line = [PAM_TRANSACTION, "--answers-from-stdin", "--no-delay", "--json", *arguments, "--service", service]
        typed = b"".join((answer if isinstance(answer, bytes) else answer.encode()) + b"\n" for answer in answers)
        done = self.host.run([*line, "--user", user], user=caller, input=typed, check=False, text=False)
        return json.loads(done.stdout)

    def ssh(
        self,
        user: str,
        *answers: str,
        method: str = "keyboard-interactive",
        command: str = "id -un",
        attempts: int | None = None,
    ) -> "Login":
        """Logs in over ssh like a person: types one answer at each prompt, each of which is an attempt of its own unless
        it is said how many there are."""
        options = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "PreferredAuthentications": method,
            "NumberOfPasswordPrompts": attempts or len(answers),
        }
        line = ["ssh", *(f"-o{key}={value}" for key, value in options.items()), f"{user}@127.0.0.1", command]
        with self.host.terminal(line) as terminal:
            for answer in answers:
                if not terminal.shows(r"[:?] ?$"):  # refused without being asked
                    break
                terminal.type(answer)
            status = terminal.end(30)
        return Login(status, terminal.text)


class Login:
    """How a login went."""

    def __init__(self, status: int, text: str):
        self.granted = status == 0
        self.refused = status == 255 and "denied" in text.lower()
        self.text = text

    def __repr__(self):
        return f"Login(granted={self.granted}, refused={self.refused}, text={self.text!r})"
