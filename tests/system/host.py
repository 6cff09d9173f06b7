"""Throwaway Debian hosts: namespaces of their own over a cached root, gone with the process that made them."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from terminal import Terminal

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
}


class CommandFailed(AssertionError):
    """A command on the host ended with another status than expected."""


def wait_for(condition, seconds: float = 10.0, what: str = "the condition"):
    """What `condition()` returns once it is true; it is asked again every 20 ms."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come within {seconds} seconds")
        time.sleep(0.02)


class Host:
    """One throwaway host. `systemd`: whether systemd is its PID 1; else nothing runs that a test did not start."""

    def __init__(self, root: Path, systemd: bool = False):
        self.scratch = Path(tempfile.mkdtemp(prefix="privacyidea-host-test-"))
        self._cgroup = _own_cgroup(self.scratch.name) if systemd else None
        self._syslog = None
        self._started = []
        self.pid = None
        self.systemd = systemd
        self._console = open(self.scratch.with_suffix(".console"), "wb+")
        command = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork", "--kill-child"]
        command += ["--cgroup"] if systemd else []
        command += ["--propagation", "private", HERE / "enter-root", root, self.scratch]
        command += ["systemd" if systemd else "plain"]
        self._unshare = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._console,
            stderr=self._console,
            preexec_fn=self._before_unshare,
        )
        try:
            self.pid = wait_for(self._first_process, 20, "the host's first process")
            wait_for(self._is_up, 30, "the host")
            if not systemd:
                self._syslog = Syslog(self.path("/dev/log"))
        except BaseException:
            print(self.console())
            self.close()
            raise

    def _before_unshare(self):
        os.setsid()
        # The host dies with the thread that made it, whatever happens to the tests.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if self._cgroup:
            (self._cgroup / "cgroup.procs").write_text(str(os.getpid()))

    def _first_process(self):
        if self._unshare.poll() is not None:
            raise AssertionError("the host died at once")
        children = Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def _is_up(self):
        if self._unshare.poll() is not None:
            raise AssertionError("the host died at once")
        # pivot_root is done when the root that it had before is gone, and the program is the last one exec'ed.
        name = Path(f"/proc/{self.pid}/comm").read_text().strip()
        command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        if not self.systemd:
            return name == "bash" and b"read -r || true" in command
        if name != "systemd":
            return False
        state = self.run("systemctl is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def console(self) -> str:
        """What the host's first process wrote."""
        self._console.seek(0)
        return self._console.read().decode(errors="replace")

    def path(self, path: str) -> Path:
        """A path of the host, as this machine sees it. (Absolute links in it would lead to this machine's files.)"""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(self, script, user: str | None = None) -> list:
        """The command line that runs a shell script, or a list of arguments, on the host."""
        arguments = ["sh", "-c", script] if isinstance(script, str) else [str(a) for a in script]
        if user:
            arguments = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--", *arguments]
        inside = ["env", "-i", *(f"{k}={v}" for k, v in ENVIRONMENT.items()), *arguments]
        namespaces = ["--mount", "--pid", "--uts", "--ipc", "--net"] + (["--cgroup"] if self.systemd else [])
        return ["nsenter", f"--target={self.pid}", *namespaces, "--", *inside]

    def run(self, script, *, check=True, user=None, input=None, timeout=60, text=True) -> subprocess.CompletedProcess:
        """Runs a shell script (or a list of arguments) on the host and returns its status and output; without `text`
        input and output are bytes."""
        done = subprocess.run(
            self.command(script, user),
            input=input,
            capture_output=True,
            timeout=timeout,
            **({"text": True, "errors": "replace"} if text else {}),
        )
        if check and done.returncode != 0:
            raise CommandFailed(f"{script!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def output(self, script, **options) -> str:
        """What `run` printed on its standard output, without the last line's end."""
        return self.run(script, **options).stdout.rstrip("\n")

    def start(self, script, user=None) -> subprocess.Popen:
        """Starts a command that goes on; it ends with the host."""
        process = subprocess.Popen(
            self.command(script, user),
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=self._console,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def terminal(self, script, user=None) -> Terminal:
        """Runs a command on a terminal of the host, for a test that types and reads."""
        return Terminal(self.command(script, user), self.path("/dev/pts"))

    def write(self, path: str, text: str, mode: int | None = None) -> None:
        """Writes a file of the host."""
        self.path(path).write_text(text)
        if mode is not None:
            self.path(path).chmod(mode)

    def read(self, path: str) -> str:
        """Reads a file of the host."""
        return self.path(path).read_text()

    def log(self) -> str:
        """What the host's programs logged: the journal, or what came to /dev/log."""
        if self.systemd:
            return self.output("journalctl --no-pager --quiet --output=short-monotonic")
        return self._syslog.text()

    def install(self, packages: list, **options) -> subprocess.CompletedProcess:
        """Installs .deb files the way an administrator does."""
        directory = self.path("/root/packages")
        directory.mkdir(exist_ok=True)
        for old in directory.iterdir():
            old.unlink()
        for package in packages:
            shutil.copy(package, directory)
        return self.run("cd /root/packages && apt-get install --yes --reinstall ./*.deb", timeout=300, **options)

    def close(self) -> None:
        """Ends every process of the host and removes what it had."""
        if self._syslog:
            self._syslog.close()
        # With its first process all others of the namespace end, and unshare, which waits for it.
        if self.pid and self._unshare.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        else:
            self._unshare.kill()
        self._unshare.wait()
        for process in self._started:
            process.wait()
        self._unshare.stdin.close()
        self._console.close()
        self.scratch.with_suffix(".console").unlink(missing_ok=True)
        if self._cgroup:
            wait_for(lambda: _removed_cgroup(self._cgroup), 10, "the end of the host's control groups")
        wait_for(lambda: _removed_directory(self.scratch), 10, "the end of the host's mounts")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Syslog:
    """Keeps what comes to a /dev/log."""

    def __init__(self, path: Path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        path.chmod(0o666)
        self._lines = []
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self):
        while True:
            try:
                line = self._socket.recv(8192)
            except OSError:
                return
            if not line:
                return
            self._lines.append(line.decode(errors="replace").rstrip("\0\n"))

    def text(self) -> str:
        return "\n".join(self._lines)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _own_cgroup(name: str) -> Path | None:
    """A cgroup2 group of ours for a systemd to live in, below the one that we are in."""
    tree = next((t for t in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (t / "cgroup.procs").exists()), None)
    if tree is None:
        raise AssertionError("no cgroup2 file system on this machine: systemd cannot be booted in a namespace")
    own = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    group = tree / own.lstrip("/") / name
    group.mkdir()
    return group


def _removed_cgroup(group: Path) -> bool:
    for directory, _, _ in os.walk(group, topdown=False):
        try:
            os.rmdir(directory)
        except OSError:
            return False
    return True


def _removed_directory(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError:
        return False
    return True
