"""Conditions of the benches: no defence, the four of seeds/000 as it describes them, and offline variants.

A condition is a flat tuple of *defences*, each asked once at its stage, none wrapping another (the failure of
seeds/000, appendix D). The ones that ask a model need one; without it they are not measured, and never replaced
silently: what runs offline has another name.
"""
