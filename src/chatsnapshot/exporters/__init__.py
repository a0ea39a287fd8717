"""Exporters: each writes what a ledger holds in a form that other programs read; nothing in the ledger changes."""

from chatsnapshot.exporters.base import Exporter, ExportReport, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.exporting import export
from chatsnapshot.exporters.formats import FORMATS, exporter_of

__all__ = ["FORMATS", "Choice", "ExportReport", "Exporter", "Tally", "export", "exporter_of"]
