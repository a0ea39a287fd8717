-- States of projections: derived, rebuilt at will, keys in the order of their code points.

CREATE TABLE chatsnapshot.projection (
  ledger integer NOT NULL,
  name text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  position bigint NOT NULL,
  leaf bytea NOT NULL,
  digest bytea NOT NULL,
  PRIMARY KEY (ledger, name, version)
);

CREATE TABLE chatsnapshot.projection_state (
  ledger integer NOT NULL,
  name text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  state bytea NOT NULL,
  PRIMARY KEY (ledger, name, version, key)
);
