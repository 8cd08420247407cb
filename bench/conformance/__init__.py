"""The conformance kit: the integrity bench's cases, verdicts and scores for a store that somebody else maintains.

A maintainer describes the store (:class:`~memguard.bench.conformance.subject.Subject`: open, write, read, delete) and
what its data look like at rest (:mod:`~memguard.bench.conformance.raw`); every edit follows from the two. People import
it as ``memguard.testing.conformance``.
"""
