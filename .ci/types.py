"""mypy --strict on the unpacked wheel, with the number of files checked asserted.

    python .ci/types.py

Run at the root of the repository, mypy once saw three of eight files and missed a planted error; so it
runs in another folder, and a run that checked fewer files than the wheel holds fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from unpack import ROOT, unpack

folder = ROOT / "build" / "types"
count = unpack(folder / "wheel")
empty = folder / "run"
empty.mkdir(exist_ok=True)
run = subprocess.run(
    [
        *(sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")),
        *("--cache-dir", str(ROOT / ".mypy_cache" / "wheel"), "-p", "memguard"),
    ],
    cwd=empty,
    env={**os.environ, "MYPYPATH": str(folder / "wheel")},
    capture_output=True,
    text=True,
    check=False,
)
output = run.stdout  # name files as they lie in the repository
for where in (str(folder / "wheel"), os.path.relpath(folder / "wheel", empty)):
    for mapped in ("integrations", "bench"):
        output = output.replace(f"{where}/memguard/{mapped}/", f"{mapped}/")
    output = output.replace(f"{where}/", "")
print(output, end="")
print(run.stderr, end="", file=sys.stderr)
if run.returncode:
    raise SystemExit(run.returncode)
checked = re.search(r"in (\d+) source files?", run.stdout)
if checked is None or int(checked[1]) != count:
    raise SystemExit(
        f"mypy checked {checked and checked[1]} files, the wheel holds {count}: its success means nothing"
    )
