"""The command line: ``chatsnapshot COMMAND``. Each command is a module, imported when it is used."""
