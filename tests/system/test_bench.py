"""tests/bench: that it measures and what it prints; never how long anything took."""

import importlib.machinery
import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.fixture(scope="module")
def rows(request, packages) -> list:
    options = [f"--{name}={request.config.getoption(name)}" for name in ("packages", "suite")]
    done = subprocess.run([BENCH, "pam", "-n", "3", "--json", *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_rows_for_programs_have_the_peers_beside_us(rows):
    for row in rows:
        assert list(row) == ["what", "who", "n", "min", "median", "max", "unit"]
        assert 0 < row["min"] <= row["median"] <= row["max"]
        assert (row["n"], row["unit"]) == (3, "ms")
    measured = {(row["what"], row["who"]) for row in rows}
    local = ["state in memory", "1000 other tokens", "100000 other tokens", "daemon stopped", "state on the disk"]
    for what in local:
        assert {(f"local TOTP, {what}", who) for who in ("privacyidea-host", "pam_oath")} <= measured
    for what in ("a fixed answer", "privacyIDEA"):
        assert {(f"checked by {what}", who) for who in ("privacyidea-host", "request alone")} <= measured


def test_the_table_for_people_has_a_line_for_each_row(rows):
    loader = importlib.machinery.SourceFileLoader("bench", str(BENCH))
    bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(bench)
    head, *lines = bench.table(rows).splitlines()
    assert head.split() == ["what", "who", "n", "min", "median", "max", "unit"]
    assert len(lines) == len(rows)
    assert len({len(line) for line in lines}) == 1
