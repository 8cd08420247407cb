"""Texts of the attack bench, one file per family: attacks, and honest twins of the same shape. CC0.

They were written for this bench before any of them was measured and without sight of the rules. None is edited to
fit a result.
"""
