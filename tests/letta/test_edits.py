"""What the server's memory tools would leave, told beforehand. That it is right is tried in test_turns.py, where the
server must come to the same."""

from __future__ import annotations

from typing import Any

import pytest

from memguard.integrations.letta.edits import arguments_of, effect, is_writer, unattended

VALUES = {"human": "one\ntwo\nthree", "persona": "a\tb a"}


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("memory_insert", {"label": "human", "new_string": "x"}, "one\ntwo\nthree\nx"),
        (
            "memory_insert",
            {"label": "human", "new_string": "x\ny", "insert_line": 0},
            "x\ny\none\ntwo\nthree",
        ),
        ("memory_insert", {"label": "human", "new_string": "x", "insert_line": 2}, "one\ntwo\nx\nthree"),
        ("memory_replace", {"label": "human", "old_string": "two", "new_string": "2"}, "one\n2\nthree"),
        ("memory_replace", {"label": "persona", "old_string": "b", "new_string": "c"}, "a       c a"),
        ("memory_rethink", {"label": "human", "new_memory": "new"}, "new"),
        ("core_memory_append", {"label": "human", "content": "x"}, "one\ntwo\nthree\nx"),
        ("core_memory_replace", {"label": "persona", "old_content": "a", "new_content": "z"}, "z\tb z"),
        (
            "memory",
            {"command": "str_replace", "path": "/memories/human", "old_string": "one", "new_string": "1"},
            "1\ntwo\nthree",
        ),
        (
            "memory",
            {"command": "insert", "path": "human", "insert_text": "x", "insert_line": 0},
            "x\none\ntwo\nthree",
        ),
    ],
)
def test_the_value_that_a_call_leaves(name: str, arguments: dict[str, Any], value: str) -> None:
    found = effect(name, arguments, VALUES)
    assert (found.value, found.why) == (value, "")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_insert", {"label": "nobody", "new_string": "x"}),
        ("memory_insert", {"label": "human", "new_string": "x", "insert_line": 4}),
        ("memory_insert", {"label": "human", "new_string": "x", "insert_line": True}),
        ("memory_insert", {"label": "human"}),
        ("memory_replace", {"label": "persona", "old_string": "a", "new_string": "b"}),  # twice
        ("memory_replace", {"label": "human", "old_string": "", "new_string": "b"}),
        ("core_memory_append", {"label": "human", "content": 7}),
        ("memory_rethink", {"label": "new block", "new_memory": "x"}),
        ("memory_apply_patch", {"label": "human", "patch": "+x"}),
        ("memory", {"command": "create", "path": "/memories/new", "file_text": "x"}),
        ("memory", {"command": "delete", "path": "/memories/human"}),
        ("store_memories", {"chunks": []}),
        ("archival_memory_insert", {"content": None}),
        ("memory_insert", None),
    ],
)
def test_a_call_whose_outcome_is_not_known_says_why(name: str, arguments: dict[str, Any] | None) -> None:
    found = effect(name, arguments, VALUES)
    assert found.why
    assert found.value is None
    assert found.passage is None


def test_a_passage_and_its_tags() -> None:
    found = effect("archival_memory_insert", {"content": "a fact", "tags": ["x"]}, VALUES)
    assert (found.passage, found.tags, found.why) == ("a fact", ("x",), "")


def test_arguments_are_an_object_without_what_steers_the_loop() -> None:
    assert arguments_of('{"label": "human", "request_heartbeat": true}') == {"label": "human"}
    assert arguments_of("[1]") is None
    assert arguments_of("{") is None


def test_tools_that_write_ask_first() -> None:
    tools = [
        {"name": "memory_insert", "tool_type": "letta_sleeptime_core"},
        {"name": "memory_of_a_later_version", "tool_type": "letta_memory_core"},
        {"name": "memory_finish_edits", "tool_type": "letta_sleeptime_core"},
        {"name": "conversation_search", "tool_type": "letta_core"},
        {"name": "archival_memory_insert", "tool_type": "letta_core"},
    ]
    assert [tool["name"] for tool in tools if is_writer(tool)] == [
        "memory_insert",
        "memory_of_a_later_version",
        "archival_memory_insert",
    ]
    rules = [
        {"type": "requires_approval", "tool_name": "memory_insert"},
        {"type": "run_first", "tool_name": "x"},
    ]
    assert unattended({"tools": tools, "tool_rules": rules}) == [
        "memory_of_a_later_version",
        "archival_memory_insert",
    ]
