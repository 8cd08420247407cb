"""Texts of the attack bench, one file per family: attacks, and honest twins of the same shape. CC0; written for this bench.

They were written before any of them was measured and without sight of the rules. None is edited to fit a result.
"""
