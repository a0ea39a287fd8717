"""The HTTP service: ledgers over the network, as ``docs/http.md`` describes it; ``chatsnapshot serve`` runs it."""
