"""The public surface: what `memguard.__all__` lists, which is what the design promises and nothing else."""

from __future__ import annotations

import inspect

import memguard
from memguard import errors

# Selector arrives with forget, which is not in the tree yet: a name without the thing behind it would be a promise
# that only a reader believes.
PROMISED = {"MemGuard", "guard", "unwrap", "source", "principal", "render"}
METHODS = {"create", "open", "close", "guard", "check", "label", "audit", "adopt", "repair"}
TREE = {
    "MemguardError": {
        "ConfigError",
        "AlreadyGuardedError",
        "UnsupportedError",
        "IntegrityError",
        "RefusedError",
    },
    "IntegrityError": {"TamperedError", "RollbackError", "ForkError", "UnknownKeyError", "AnchorError"},
    "RefusedError": {"RejectedError", "QuarantinedError", "ScopeError", "ForgottenError"},
}


def raised() -> dict[str, type[BaseException]]:
    """Every exception class that memguard/errors.py defines."""
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, BaseException) and value.__module__ == errors.__name__
    }


def test_all_is_sorted_unique_and_resolves() -> None:
    listed = list(memguard.__all__)
    assert listed == sorted(set(listed))
    assert [name for name in listed if getattr(memguard, name, None) is None] == []


def test_what_the_design_promises_is_there() -> None:
    assert PROMISED - set(memguard.__all__) == set()
    assert METHODS - set(dir(memguard.MemGuard)) == set()


def test_every_error_is_importable_from_memguard_and_stands_where_the_tree_says() -> None:
    defined = raised()
    assert set(defined) == {"MemguardError"}.union(*TREE.values())
    for name, value in defined.items():
        assert getattr(memguard, name) is value
        assert name in memguard.__all__
    for parent, children in TREE.items():
        below = {name for name, value in defined.items() if defined[parent] in value.__bases__}
        assert below == children


def test_nothing_is_public_by_accident() -> None:
    """What memguard itself defines and shows without an underscore is listed, or one of its modules."""
    loose = {
        name
        for name, value in vars(memguard).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and str(getattr(value, "__module__", "")).startswith("memguard")
    }
    assert loose - set(memguard.__all__) == set()


def test_everything_public_says_what_it_is() -> None:
    public = [(name, getattr(memguard, name)) for name in memguard.__all__ if not name.startswith("_")]
    assert len(public) > 15
    assert [name for name, value in public if callable(value) and not inspect.getdoc(value)] == []
    methods = inspect.getmembers(memguard.MemGuard, callable)
    assert [name for name, value in methods if not name.startswith("_") and not inspect.getdoc(value)] == []


def test_public_functions_are_fully_annotated() -> None:
    """A type checker that reads the wheel (py.typed) meets no Any where a signature could say more."""
    functions = {name: getattr(memguard, name) for name in memguard.__all__}
    functions = {name: value for name, value in functions.items() if inspect.isfunction(value)}
    assert functions
    for name, value in functions.items():
        signature = inspect.signature(value)
        assert signature.return_annotation is not signature.empty, name
        assert [p.name for p in signature.parameters.values() if p.annotation is p.empty] == [], name
