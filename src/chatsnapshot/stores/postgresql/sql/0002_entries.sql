-- Entries without their payloads: one table, never partitioned, because ids and sequences are unique for ever.

CREATE TABLE chatsnapshot.entry (
  ledger integer NOT NULL,
  sequence bigint NOT NULL,
  position bigint NOT NULL,
  event_id uuid NOT NULL,
  causation_id uuid,
  schema_version bigint,
  payload_bytes integer NOT NULL,
  recorded_at text COLLATE "C" NOT NULL,
  event_type text COLLATE "C" NOT NULL,
  "timestamp" text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  correlation_id text COLLATE "C" NOT NULL,
  attributes text COLLATE "C",
  leaf bytea NOT NULL,
  commitment bytea NOT NULL,
  PRIMARY KEY (ledger, position)
);
CREATE UNIQUE INDEX entry_event_id ON chatsnapshot.entry (ledger, event_id);
CREATE UNIQUE INDEX entry_correlation ON chatsnapshot.entry (ledger, correlation_id, sequence);
CREATE INDEX entry_type ON chatsnapshot.entry (ledger, event_type, position);
CREATE INDEX entry_child ON chatsnapshot.entry (ledger, causation_id)
  WHERE sequence = 1 AND causation_id IS NOT NULL;
