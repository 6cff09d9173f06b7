"""The throwaway hosts themselves: apart from this machine, and gone without a trace."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from host import Host, wait_for

HERE = Path(__file__).resolve().parent


def traces(name: str) -> list:
    """What is left of a host: directories, mounts, control groups."""
    found = [str(path) for path in Path("/tmp").glob(name + "*")]
    found += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{name}")]
    return found


@pytest.mark.parametrize("systemd", [False, True])
def test_a_closed_host_leaves_nothing(root, systemd):
    with Host(root, systemd=systemd) as host:
        name, first = host.scratch.name, host.pid
        host.start("exec sleep 1000")
        host.write("/etc/changed-by-a-test", "x")
        assert host.output("hostname; whoami") == "testhost\nroot"
    assert traces(name) == []
    assert not Path(f"/proc/{first}").exists()
    assert not (root / "etc/changed-by-a-test").exists()


def test_a_host_dies_with_the_process_that_made_it(root):
    script = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); from host import Host; from pathlib import Path\n"
        f"host = Host(Path({str(root)!r})); host.start('exec sleep 1000'); print(host.pid, host.scratch, flush=True)\n"
        "sys.stdin.read()\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first, scratch = maker.stdout.readline().split()
    assert Path(f"/proc/{first}").exists()
    maker.send_signal(signal.SIGKILL)
    maker.wait()
    maker.stdin.close()
    maker.stdout.close()
    wait_for(lambda: not Path(f"/proc/{first}").exists(), 10, "the host's end")
    # Killed, it cannot tidy its own empty directory away; nothing is mounted there.
    wait_for(lambda: not os.path.ismount(scratch), 10, "the end of the mount")
    os.rmdir(scratch)
    Path(scratch + ".console").unlink()


def test_a_host_has_only_itself_for_a_network(bare):
    assert bare.output("ip -brief link | cut -d' ' -f1") == "lo"
