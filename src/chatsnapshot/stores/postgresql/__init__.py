"""PostgreSQL: one ledger or many in a database that you already run."""
