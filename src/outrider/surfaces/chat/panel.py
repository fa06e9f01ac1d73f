"""A panel: lines on the whole screen, to scroll and to search, until the person leaves it."""

from collections.abc import Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.filters import has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import SearchToolbar, TextArea


async def show_panel(title: str, lines: Sequence[str]) -> None:
    """Show lines that are clean; return when the person has seen enough."""
    search = SearchToolbar(ignore_case=True)
    text = TextArea(
        "\n".join(lines), read_only=True, scrollbar=True, search_field=search, wrap_lines=False
    )
    head = FormattedTextControl(f" {title} · / search · n next · q close")
    keys = KeyBindings()

    @keys.add("q", filter=has_focus(text))
    @keys.add("c-c")
    @keys.add("c-d")
    def close(event: KeyPressEvent) -> None:
        event.app.exit()

    body = HSplit([Window(head, height=1, style="reverse"), text, search])
    await Application[None](Layout(body, text), key_bindings=keys, full_screen=True).run_async()
