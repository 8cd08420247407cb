"""Groups of commands whose help lists each by its whole first sentence."""

from __future__ import annotations

import click


class Group(click.Group):
    """As click's, which cuts the sentences off at the width of its table."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands; a long sentence goes on in the next line."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = [
            (name, (one.help or "").strip().partition("\n")[0])
            for name, one in named
            if one is not None and not one.hidden
        ]
        if lines:
            with formatter.section("Commands"):
                formatter.write_dl(lines)
