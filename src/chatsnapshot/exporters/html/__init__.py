"""One run as one HTML file: no script, nothing from elsewhere, the same bytes for the same ledger."""

from chatsnapshot.exporters.html.page import PageReport, render_page, write_page
from chatsnapshot.exporters.html.pages import HtmlPages

__all__ = ["HtmlPages", "PageReport", "render_page", "write_page"]
