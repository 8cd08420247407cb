"""Homes with a vault (see :mod:`quarantine_place`)."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))  # tests are imported by path: their helpers are not a package

from quarantine_place import make as make
from quarantine_place import place as place
