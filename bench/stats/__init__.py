"""Estimators of the benches: pure functions from grades to figures."""
