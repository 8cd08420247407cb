"""Commands that change one value of memguard.toml seal no other value that somebody else put there."""

from __future__ import annotations

import shutil

import pytest

from memguard import MemGuard
from memguard.errors import TamperedError

COMMANDS = {
    "calibrate": ("calibrate", "texts.txt", "--apply"),
    "promote": ("config", "promote", "--apply"),
    "review key": ("quarantine", "key", "--review-key", "file:../review/key.json", "--apply"),
    "anchor": ("anchor", "set", "file:../moved/anchor", "--apply"),
}


@pytest.fixture
def home(run, place):
    """A home with a guard that observes, and memories to calibrate with."""
    assert run("init").exit_code == 0
    toml = place / ".memguard" / "memguard.toml"
    toml.write_text(toml.read_text() + '\n[write]\nsanitizer = "observe"\n')
    assert run("config", "seal", "--apply").exit_code == 0
    (place / "texts.txt").write_text("".join(f"memory number {n} about green tea\n" for n in range(2000)))
    return toml.parent


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("way", ["edited", "an older one put back"])
def test_what_somebody_changed_is_not_sealed_with_it(run, home, tmp_path, command, way) -> None:
    toml = home / "memguard.toml"
    if way == "edited":
        toml.write_text(toml.read_text() + '\n[integrity]\nmode = "off"\n')
    else:
        shutil.copytree(home, tmp_path / "older")
        toml.write_text(toml.read_text() + "\n# newer\n")
        assert run("config", "seal", "--apply").exit_code == 0
        for name in ("memguard.toml", "memguard.toml.sig"):
            shutil.copy(tmp_path / "older" / name, home / name)
    before = toml.read_bytes()
    result = run(*command)
    assert result.exit_code == 1
    assert "MG431" in result.stderr
    assert toml.read_bytes() == before
    with pytest.raises(TamperedError):
        MemGuard.open(home)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_is_as_it_was_sealed_is_changed_and_opens(run, home, command) -> None:
    result = run(*command)
    assert result.exit_code in (0, 1), result.stderr  # 1: a warning about the place of the anchor
    MemGuard.open(home).close()


@pytest.mark.parametrize("name", ["memguard.toml.new", "memguard.toml.sig.new"])
def test_nothing_is_written_through_a_link_in_the_home(run, home, place, name) -> None:
    victim = place / "victim"
    victim.write_text("mine")
    (home / name).symlink_to(victim)
    assert run("config", "promote", "--apply").exit_code == 0
    assert victim.read_text() == "mine"
    assert not (home / "memguard.toml").is_symlink()
    MemGuard.open(home).close()


def test_seal_that_is_no_file_is_no_seal(home) -> None:
    (home / "memguard.toml.sig").unlink()
    (home / "memguard.toml.sig").mkdir()
    with pytest.raises(TamperedError) as caught:
        MemGuard.open(home)
    assert caught.value.code == "MG431"
