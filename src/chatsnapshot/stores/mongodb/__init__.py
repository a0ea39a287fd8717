"""MongoDB: one ledger or many in a replica set that you already run."""
