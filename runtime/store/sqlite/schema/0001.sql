-- Times are microseconds since 1970 UTC; 0 means never. Lists are JSON arrays.

CREATE TABLE vault (
	id          INTEGER PRIMARY KEY CHECK (id = 1),
	check_value BLOB NOT NULL
) STRICT;

CREATE TABLE tenant_keys (
	tenant  TEXT PRIMARY KEY,
	wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (
	tenant      TEXT    NOT NULL,
	name        TEXT    NOT NULL,
	version     INTEGER NOT NULL,
	authorities TEXT    NOT NULL,
	ciphertext  BLOB    NOT NULL,
	created     INTEGER NOT NULL,
	last_used   INTEGER NOT NULL,
	expires     INTEGER NOT NULL,
	PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
	hash    BLOB    PRIMARY KEY,
	id      TEXT    NOT NULL,
	tenant  TEXT    NOT NULL,
	agent   TEXT    NOT NULL,
	run     TEXT    NOT NULL,
	scopes  TEXT    NOT NULL,
	roles   TEXT    NOT NULL,
	creator TEXT    NOT NULL,
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	revoked INTEGER NOT NULL,
	UNIQUE (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
	tenant    TEXT    NOT NULL,
	id        TEXT    NOT NULL,
	state     TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	agent     TEXT    NOT NULL,
	run       TEXT    NOT NULL,
	surface   TEXT    NOT NULL,
	action    TEXT    NOT NULL,
	risk      TEXT    NOT NULL,
	rule      TEXT    NOT NULL,
	reason    TEXT    NOT NULL,
	method    TEXT    NOT NULL,
	authority TEXT    NOT NULL,
	path      TEXT    NOT NULL,
	digest    TEXT    NOT NULL,
	sealed    BLOB,
	created   INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	decided   INTEGER NOT NULL,
	decider   TEXT    NOT NULL,
	presence  TEXT    NOT NULL,
	note      TEXT    NOT NULL,
	holder    TEXT    NOT NULL,
	proof     BLOB,
	ended     INTEGER NOT NULL,
	PRIMARY KEY (tenant, id)
) STRICT;

CREATE INDEX approvals_of ON approvals (tenant, principal, state, digest);
CREATE INDEX approvals_by_state ON approvals (tenant, state, created);

CREATE TABLE watchers (
	tenant TEXT    NOT NULL,
	who    TEXT    NOT NULL,
	until  INTEGER NOT NULL,
	PRIMARY KEY (tenant, who)
) STRICT, WITHOUT ROWID;

CREATE TABLE entries (
	slot       TEXT    NOT NULL,
	sequence   INTEGER NOT NULL,
	kind       TEXT    NOT NULL,
	time       INTEGER NOT NULL,
	request_id TEXT    NOT NULL,
	tenant     TEXT    NOT NULL,
	agent      TEXT    NOT NULL,
	principal  TEXT    NOT NULL,
	surface    TEXT    NOT NULL,
	action     TEXT    NOT NULL,
	effect     TEXT    NOT NULL,
	rule       TEXT    NOT NULL,
	host       TEXT    NOT NULL,
	status     INTEGER NOT NULL,
	code       TEXT    NOT NULL,
	line       BLOB    NOT NULL,
	PRIMARY KEY (slot, sequence)
) STRICT;

CREATE INDEX entries_by_time ON entries (time);
CREATE INDEX entries_by_request ON entries (request_id);

-- The change counter moves when what processes keep in memory is out of date.
-- Last uses do not count: they are written all the time and nobody keeps them.

CREATE TABLE changes (
	id      INTEGER PRIMARY KEY CHECK (id = 1),
	counter INTEGER NOT NULL
) STRICT;

INSERT INTO changes (id, counter) VALUES (1, 1);

CREATE TRIGGER secrets_added AFTER INSERT ON secrets
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER secrets_changed AFTER UPDATE OF tenant, name, version, authorities, ciphertext, created, expires ON secrets
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER secrets_removed AFTER DELETE ON secrets
BEGIN UPDATE changes SET counter = counter + 1; END;

CREATE TRIGGER tenant_keys_added AFTER INSERT ON tenant_keys
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER tenant_keys_changed AFTER UPDATE ON tenant_keys
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER tenant_keys_removed AFTER DELETE ON tenant_keys
BEGIN UPDATE changes SET counter = counter + 1; END;

CREATE TRIGGER tokens_added AFTER INSERT ON tokens
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER tokens_changed AFTER UPDATE ON tokens
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER tokens_removed AFTER DELETE ON tokens
BEGIN UPDATE changes SET counter = counter + 1; END;
