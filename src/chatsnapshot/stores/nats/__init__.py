"""NATS JetStream: the replicated store, a ledger in a stream of its own."""
