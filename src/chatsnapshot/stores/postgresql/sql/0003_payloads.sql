-- Payloads and their salts, in partitions by ledger and position, so that old ones can be detached and archived.
-- An erased payload is a row of NULLs; an archived one is a row that is not there.

CREATE TABLE chatsnapshot.payload (
  ledger integer NOT NULL,
  position bigint NOT NULL,
  salt bytea,
  payload bytea,
  PRIMARY KEY (ledger, position),
  CHECK ((salt IS NULL) = (payload IS NULL))
) PARTITION BY RANGE (ledger, position);
