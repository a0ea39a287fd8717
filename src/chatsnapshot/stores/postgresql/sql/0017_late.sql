-- Starts of runs that came after other events of their correlation: by their causes, to find them from above.

CREATE INDEX entry_late ON chatsnapshot.entry (ledger, causation_id)
  WHERE event_type = 'execution.run_started' AND sequence > 1 AND causation_id IS NOT NULL;
