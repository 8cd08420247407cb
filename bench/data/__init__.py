"""Loaders of public data sets, by path: none is part of this repository, each is checked by its SHA-256."""
