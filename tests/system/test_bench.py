"""tests/bench: that it measures and what it prints; never how long anything took."""

import json
import subprocess
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1] / "bench"


def bench(request, *arguments) -> str:
    options = [f"--{name}={request.config.getoption(name)}" for name in ("packages", "suite")]
    done = subprocess.run([BENCH, "pam", "-n", "3", *options, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_rows_for_programs_have_the_peers_beside_us(request, packages):
    rows = json.loads(bench(request, "--json"))
    for row in rows:
        assert list(row) == ["what", "who", "n", "min", "median", "max", "unit"]
        assert 0 < row["min"] <= row["median"] <= row["max"]
        assert (row["n"], row["unit"]) == (3, "ms")
    measured = {(row["what"], row["who"]) for row in rows}
    for state in ("state in memory", "state on the disk"):
        for who in ("privacyidea-host", "pam_oath"):
            assert (f"PAM transaction, local TOTP, {state}", who) in measured


def test_the_table_for_people_has_a_line_for_each_row(request, packages):
    head, *lines = bench(request).splitlines()
    assert head.split() == ["what", "who", "n", "min", "median", "max", "unit"]
    assert len(lines) == 6
    assert all(line.endswith(" ms") for line in lines)
