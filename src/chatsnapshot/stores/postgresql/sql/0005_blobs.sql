-- Blobs by their digest, in parts, and the entries that name them.

CREATE TABLE chatsnapshot.blob (
  ledger integer NOT NULL,
  digest bytea NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (ledger, digest)
);

CREATE TABLE chatsnapshot.blob_part (
  ledger integer NOT NULL,
  digest bytea NOT NULL,
  part integer NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (ledger, digest, part)
);
ALTER TABLE chatsnapshot.blob_part ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE chatsnapshot.blob_use (
  ledger integer NOT NULL,
  digest bytea NOT NULL,
  position bigint NOT NULL,
  PRIMARY KEY (ledger, digest, position)
);
CREATE INDEX blob_use_position ON chatsnapshot.blob_use (ledger, position);
