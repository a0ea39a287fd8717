"""The HTTP store: a ledger behind ``chatsnapshot serve``, with all promises (``mode="direct"``)."""
