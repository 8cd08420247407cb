"""Package list for the three top-level folders; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

ROOTS = {"memguard": "memguard", "memguard.integrations": "integrations", "memguard.bench": "bench"}
setup(packages=[p for n, folder in ROOTS.items() for p in [n, *(f"{n}.{s}" for s in find_packages(folder))]])
