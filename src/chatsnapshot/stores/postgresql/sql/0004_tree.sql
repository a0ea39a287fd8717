-- Full tiles of 256 hashes, and the open tiles above level 0 (those of level 0 are the leaves of the entries).

CREATE TABLE chatsnapshot.tile (
  ledger integer NOT NULL,
  level integer NOT NULL,
  number bigint NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (ledger, level, number)
);
ALTER TABLE chatsnapshot.tile ALTER COLUMN hashes SET STORAGE EXTERNAL;

CREATE TABLE chatsnapshot.edge (
  ledger integer NOT NULL,
  level integer NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (ledger, level)
);
ALTER TABLE chatsnapshot.edge ALTER COLUMN hashes SET STORAGE EXTERNAL;
