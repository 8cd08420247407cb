"""Reads: what the store answers, compared with the index, and looked at again before it alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from memguard.custody.writing import Writing
from memguard.effects import Acquire, Operation
from memguard.errors import IntegrityError
from memguard.integrity.verifier import Context

T = TypeVar("T")


class Custody(Writing):
    """Integrity of one store under one name; the arguments are those of :class:`Contexts`."""

    def read(
        self,
        name: str,
        fetch: Callable[[], Operation[T]],
        judge: Callable[[Context, T], Any],
        lenient: Callable[[T], Any],
        record: str,
    ) -> Operation[Any]:
        """Serve what ``fetch`` reads if ``judge`` finds it true.

        Args:
            judge: checks and decodes, raising IntegrityError; pure, may run twice.
            lenient: decodes without checking, for report and off modes only.
            record: how errors name what is read.
        """
        if self.settings.mode == "off":
            return lenient((yield from fetch()))
        context = self.peek(name)
        if context is not None:
            raw = yield from fetch()
            if self.anchored:
                self.log.refresh()
            if context.ready and context.flawed is None:
                try:
                    return judge(context, raw)
                except IntegrityError:
                    pass  # a writer may be half-way: look again with writers kept out
        yield Acquire(self.lock, self)
        try:
            context = yield from self._enter(name)
            if self._life is not None:
                raw = yield from fetch()
                try:
                    if context.flawed is None:
                        return judge(context, raw)
                except IntegrityError:
                    context.ready = False  # it may be what a writer left that had lost its lock: a scan tells
                    context = yield from self._enter(name)
            raw = yield from fetch()
            try:
                if context.flawed is not None:
                    raise context.flawed
                return judge(context, raw)
            except IntegrityError as error:
                self.report(name, record, error)
                if self.enforcing:
                    raise
                return lenient(raw)
        except IntegrityError as error:
            if context is None or not context.ready:
                self.report(name, record, error)
            raise
        finally:
            self.lock.release()

    def complete(self, names: Iterable[str], hint: object) -> Operation[None]:
        """That no context of ``names`` misses or has gained a row, unless ``hint`` says nothing changed.

        Args:
            hint: one for all of them, or a mapping with one for each.

        Raises:
            IntegrityError: in enforce mode; in report mode it is told to the bus.
        """
        for name in names:
            context, told = self.peek(name), hint[name] if isinstance(hint, Mapping) else hint
            if context is not None and told is not None and context.reads == told and context.flawed is None:
                continue
            yield Acquire(self.lock, self)
            try:
                held = self._contexts.get(name)
                if held is not None:
                    held.ready = False  # have it scanned again, whatever this process believed
                context = yield from self._enter(name)
                context.reads = told
                if context.flawed is not None:
                    self.report(name, name, context.flawed)
            except IntegrityError as error:
                self.report(name, name, error)
                raise
            finally:
                self.lock.release()

    def alone(self, names: Iterable[str], fetch: Callable[[], Operation[T]]) -> Operation[T]:
        """:meth:`complete` and ``fetch`` with writers kept out, where they interfere too often.

        Raises:
            IntegrityError: in enforce mode; in report mode it is told to the bus.
        """
        yield Acquire(self.lock, self)
        try:
            for name in names:
                held = self._contexts.get(name)
                if held is not None:
                    held.ready = False
                try:
                    context = yield from self._enter(name)
                except IntegrityError as error:
                    self.report(name, name, error)
                    raise
                if context.flawed is not None:
                    self.report(name, name, context.flawed)
            return (yield from fetch())
        finally:
            self.lock.release()
