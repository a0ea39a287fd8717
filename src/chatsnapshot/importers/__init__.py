"""Importers: each turns the files of one program into events, each once, however often a file is imported."""

from chatsnapshot.importers.base import Importer, ImportReport, Piece, Problem
from chatsnapshot.importers.files import guess, import_file
from chatsnapshot.importers.kinds import KINDS, importer_of

__all__ = ["KINDS", "ImportReport", "Importer", "Piece", "Problem", "guess", "import_file", "importer_of"]
