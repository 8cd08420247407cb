"""Guards: one module each, found by name through :mod:`memguard.registry`."""
