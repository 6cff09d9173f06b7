"""Lookups: runs the module's own benchmark and reads its table."""

import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LINE = re.compile(
    r" *(?P<what>\S.*?) +(?P<users>\d+) +(?P<n>\d+) +(?P<min>[\d.]+) +(?P<median>[\d.]+) +(?P<max>[\d.]+) (?P<unit>\S+)"
)
# Who answers, by how the benchmark's line ends.
WHO = {" with files alone": "files", " with this module alone": "privacyidea-host"}


def measure(_options):
    """Rows of 1,000 and 100,000 users; n is the number of batches."""
    print("tests/bench: building and measuring, a minute or two", flush=True)
    command = ["cargo", "bench", "--quiet", "--locked", "-p", "nss-privacyidea", "--bench", "lookup", "--"]
    command += ["1000", "100000"]
    table = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for match in map(LINE.fullmatch, table.splitlines()[1:]):
        assert match, f"a line that is no row:\n{table}"
        end = next((end for end in WHO if match["what"].endswith(end)), "")
        what = f"{match['what'].removesuffix(end)}, {match['users']} users"
        figures = [float(match[figure]) for figure in ("min", "median", "max")]
        yield what, WHO.get(end, "privacyidea-host"), figures, match["unit"], int(match["n"])
