-- Payloads and their salts, in partitions by ledger and position, so that old ones can be detached and archived.
-- An erased payload is a row of NULLs; an archived one is a row that is not there. Salt and payload are there both or not at
-- all: the functions and triggers see to it, because a CHECK is read anew for every commit.

CREATE TABLE chatsnapshot.payload (
  ledger integer NOT NULL,
  position bigint NOT NULL,
  salt bytea,
  payload bytea,
  PRIMARY KEY (ledger, position)
) PARTITION BY RANGE (ledger, position);
