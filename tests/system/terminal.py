"""A person at a terminal: types when the prompt is there, reads what comes back."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

TIOCGPTN = 0x80045430
TIOCSPTLCK = 0x40045431


class Terminal:
    """Runs a command on a new terminal out of `pts`, a mounted devpts (so that the host's own names for it hold)."""

    def __init__(self, command: list, pts: Path = Path("/dev/pts")):
        self._leader = os.open(pts / "ptmx", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(self._leader, TIOCSPTLCK, struct.pack("i", 0))
        number = struct.unpack("i", fcntl.ioctl(self._leader, TIOCGPTN, bytes(4)))[0]
        follower = os.open(pts / str(number), os.O_RDWR | os.O_NOCTTY)
        self.text = ""
        self._seen = 0
        self._process = subprocess.Popen(
            command, stdin=follower, stdout=follower, stderr=follower, preexec_fn=_controlling_terminal, close_fds=True
        )
        os.close(follower)

    def expect(self, pattern: str, seconds: float = 20.0) -> re.Match:
        """Waits until the output since the last match holds `pattern` (a regular expression)."""
        match = self.shows(pattern, seconds)
        if not match:
            raise AssertionError(f"no {pattern!r} on the terminal, which shows:\n{self.text}")
        return match

    def shows(self, pattern: str, seconds: float = 20.0) -> re.Match | None:
        """As `expect`; none if the command ends, or the time does, without it."""
        end = time.monotonic() + seconds
        while True:
            match = re.compile(pattern).search(self.text, self._seen)
            if match:
                self._seen = match.end()
                return match
            if not self._read(end - time.monotonic()):
                return None

    def type(self, line: str) -> None:
        """Types a line and the Enter key."""
        os.write(self._leader, line.encode(errors="surrogateescape") + b"\n")

    def answer(self, prompt: str, line: str, seconds: float = 20.0) -> None:
        """Waits for a prompt, then types."""
        self.expect(prompt, seconds)
        self.type(line)

    def end(self, seconds: float = 20.0) -> int:
        """Waits for the command to end; its status."""
        end = time.monotonic() + seconds
        while self._read(end - time.monotonic()):
            pass
        try:
            status = self._process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.close()
            raise AssertionError(f"the command did not end; its terminal shows:\n{self.text}") from None
        self.close()
        return status

    def close(self) -> None:
        """Hangs up."""
        if self._leader is not None:
            os.close(self._leader)
            self._leader = None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def _read(self, seconds: float) -> bool:
        """Reads what is there within `seconds`; false at the end of the output or of the time."""
        if seconds <= 0 or not select.select([self._leader], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._leader, 65536)
        except OSError:  # EIO: nobody has the terminal open; login(1) of Debian 13 hangs it up and opens it again
            try:
                self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                return True
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _controlling_terminal():
    os.setsid()
    # What starts the command must outlive a login(1) that hangs the terminal up.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
