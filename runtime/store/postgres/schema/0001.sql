-- Times are microseconds since 1970 UTC; 0 means never. Lists are JSON arrays. A text
-- may hold escapes: see text.go; their order is that of the bytes, on every server, now and
-- after an update of its system. Names and columns are those of the SQLite schema.

CREATE TABLE vault (
	id           BIGINT PRIMARY KEY CHECK (id = 1),
	check_value  BYTEA  NOT NULL,
	locked       BIGINT NOT NULL DEFAULT 0,
	locked_by    TEXT COLLATE "C" NOT NULL DEFAULT '',
	locked_until BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE tenant_keys (
	tenant  TEXT COLLATE "C" NOT NULL,
	version BIGINT NOT NULL,
	wrapped BYTEA  NOT NULL,
	created BIGINT NOT NULL,
	PRIMARY KEY (tenant, version)
);

CREATE TABLE secrets (
	tenant       TEXT COLLATE "C" NOT NULL,
	name         TEXT COLLATE "C" NOT NULL,
	version      BIGINT NOT NULL,
	key_version  BIGINT NOT NULL,
	authorities  TEXT COLLATE "C" NOT NULL,
	reference    TEXT COLLATE "C" NOT NULL,
	ciphertext   BYTEA  NOT NULL,
	created      BIGINT NOT NULL,
	last_used    BIGINT NOT NULL,
	expires      BIGINT NOT NULL,
	fingerprints TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant, name)
);

CREATE TABLE tokens (
	hash    BYTEA  PRIMARY KEY,
	id      TEXT COLLATE "C" NOT NULL,
	tenant  TEXT COLLATE "C" NOT NULL,
	agent   TEXT COLLATE "C" NOT NULL,
	run     TEXT COLLATE "C" NOT NULL,
	scopes  TEXT COLLATE "C" NOT NULL,
	roles   TEXT COLLATE "C" NOT NULL,
	groups  TEXT COLLATE "C" NOT NULL,
	creator TEXT COLLATE "C" NOT NULL,
	created BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	revoked BIGINT NOT NULL,
	UNIQUE (tenant, id)
);

CREATE TABLE approvals (
	tenant    TEXT COLLATE "C" NOT NULL,
	id        TEXT COLLATE "C" NOT NULL,
	state     TEXT COLLATE "C" NOT NULL,
	principal TEXT COLLATE "C" NOT NULL,
	agent     TEXT COLLATE "C" NOT NULL,
	run       TEXT COLLATE "C" NOT NULL,
	surface   TEXT COLLATE "C" NOT NULL,
	action    TEXT COLLATE "C" NOT NULL,
	risk      TEXT COLLATE "C" NOT NULL,
	rule      TEXT COLLATE "C" NOT NULL,
	reason    TEXT COLLATE "C" NOT NULL,
	method    TEXT COLLATE "C" NOT NULL,
	authority TEXT COLLATE "C" NOT NULL,
	path      TEXT COLLATE "C" NOT NULL,
	digest    TEXT COLLATE "C" NOT NULL,
	created   BIGINT NOT NULL,
	expires   BIGINT NOT NULL,
	decided   BIGINT NOT NULL,
	decider   TEXT COLLATE "C" NOT NULL,
	presence  TEXT COLLATE "C" NOT NULL,
	note      TEXT COLLATE "C" NOT NULL,
	holder    TEXT COLLATE "C" NOT NULL,
	proof     BYTEA,
	kept      BYTEA,
	ended     BIGINT NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE INDEX approvals_of ON approvals (tenant, principal, state, digest);
CREATE INDEX approvals_by_state ON approvals (tenant, state, created);
CREATE INDEX approvals_of_action ON approvals (tenant, action, decided);

CREATE TABLE held (
	tenant   TEXT COLLATE "C" NOT NULL,
	approval TEXT COLLATE "C" NOT NULL,
	sealed   BYTEA NOT NULL,
	PRIMARY KEY (tenant, approval),
	FOREIGN KEY (tenant, approval) REFERENCES approvals (tenant, id) ON DELETE CASCADE
);

CREATE TABLE watchers (
	tenant TEXT COLLATE "C" NOT NULL,
	who    TEXT COLLATE "C" NOT NULL,
	until  BIGINT NOT NULL,
	PRIMARY KEY (tenant, who)
);

CREATE TABLE pins (
	tenant TEXT COLLATE "C" NOT NULL,
	who    TEXT COLLATE "C" NOT NULL,
	sealed BYTEA  NOT NULL,
	set_at BIGINT NOT NULL,
	tries  BIGINT NOT NULL,
	until  BIGINT NOT NULL,
	PRIMARY KEY (tenant, who)
);

CREATE TABLE votes (
	tenant   TEXT COLLATE "C" NOT NULL,
	approval TEXT COLLATE "C" NOT NULL,
	who      TEXT COLLATE "C" NOT NULL,
	proof    BYTEA  NOT NULL,
	given    BIGINT NOT NULL,
	PRIMARY KEY (tenant, approval, who)
);

CREATE TABLE grants (
	tenant  TEXT COLLATE "C" NOT NULL,
	id      TEXT COLLATE "C" NOT NULL,
	scope   TEXT COLLATE "C" NOT NULL,
	sealed  BYTEA  NOT NULL,
	expires BIGINT NOT NULL,
	revoked BIGINT NOT NULL,
	PRIMARY KEY (tenant, id)
);

CREATE INDEX grants_of ON grants (tenant, scope, expires);

-- The moment, in nanoseconds since 1970 UTC, at which a bucket is full again.
CREATE TABLE limits (
	bucket  TEXT COLLATE "C" PRIMARY KEY,
	full_at BIGINT NOT NULL
);

CREATE INDEX limits_by_time ON limits (full_at);

CREATE TABLE executions (
	id        TEXT COLLATE "C" PRIMARY KEY,
	tenant    TEXT COLLATE "C" NOT NULL,
	principal TEXT COLLATE "C" NOT NULL,
	state     TEXT COLLATE "C" NOT NULL,
	holder    TEXT COLLATE "C" NOT NULL,
	script    BYTEA  NOT NULL,
	result    BYTEA,
	created   BIGINT NOT NULL,
	expires   BIGINT NOT NULL,
	bytes     BIGINT NOT NULL
);

CREATE INDEX executions_by_end ON executions (expires);
CREATE INDEX executions_that_ended ON executions (tenant, principal, expires) WHERE state = 'ended';

CREATE TABLE execution_calls (
	execution TEXT COLLATE "C" NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
	step      BIGINT NOT NULL,
	settled   BIGINT NOT NULL,
	sealed    BYTEA  NOT NULL,
	PRIMARY KEY (execution, step)
);

CREATE TABLE execution_shares (
	tenant    TEXT COLLATE "C" NOT NULL,
	principal TEXT COLLATE "C" NOT NULL,
	bytes     BIGINT NOT NULL,
	PRIMARY KEY (tenant, principal)
);

CREATE FUNCTION share_executions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO execution_shares AS s (tenant, principal, bytes) VALUES (new.tenant, new.principal, new.bytes)
		ON CONFLICT (tenant, principal) DO UPDATE SET bytes = s.bytes + excluded.bytes;
	ELSIF TG_OP = 'UPDATE' THEN
		UPDATE execution_shares SET bytes = bytes + new.bytes - old.bytes WHERE tenant = new.tenant AND principal = new.principal;
	ELSE
		UPDATE execution_shares SET bytes = bytes - old.bytes WHERE tenant = old.tenant AND principal = old.principal;
		DELETE FROM execution_shares WHERE tenant = old.tenant AND principal = old.principal AND bytes <= 0;
	END IF;
	RETURN NULL;
END
$$;

CREATE TRIGGER executions_shared AFTER INSERT OR DELETE OR UPDATE OF bytes ON executions
	FOR EACH ROW EXECUTE FUNCTION share_executions();

-- The search index of the trail lies with the trail's files, in each home. Its table is
-- here so that every engine has the same ones; nothing is written to it.
CREATE TABLE entries (
	slot       TEXT COLLATE "C" NOT NULL,
	sequence   BIGINT NOT NULL,
	kind       TEXT COLLATE "C" NOT NULL,
	time       BIGINT NOT NULL,
	request_id TEXT COLLATE "C" NOT NULL,
	tenant     TEXT COLLATE "C" NOT NULL,
	agent      TEXT COLLATE "C" NOT NULL,
	principal  TEXT COLLATE "C" NOT NULL,
	surface    TEXT COLLATE "C" NOT NULL,
	action     TEXT COLLATE "C" NOT NULL,
	effect     TEXT COLLATE "C" NOT NULL,
	rule       TEXT COLLATE "C" NOT NULL,
	host       TEXT COLLATE "C" NOT NULL,
	status     BIGINT NOT NULL,
	code       TEXT COLLATE "C" NOT NULL,
	execution  TEXT COLLATE "C" NOT NULL,
	step       BIGINT NOT NULL,
	line       BYTEA  NOT NULL,
	PRIMARY KEY (slot, sequence)
);

-- Records of the trails of homes, as they stand in their ledgers, for those that send them
-- here. The digest is SHA-256 of the line: one that is sent twice stands here once.
CREATE TABLE trail (
	id     BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at     TIMESTAMPTZ NOT NULL DEFAULT now(),
	home   TEXT        NOT NULL,
	slot   TEXT        NOT NULL,
	digest BYTEA       NOT NULL,
	line   TEXT        NOT NULL,
	UNIQUE (home, slot, digest)
);

-- Who has something for a while: a process its name, a renewal its turn.
CREATE TABLE leases (
	name   TEXT COLLATE "C" PRIMARY KEY,
	holder TEXT COLLATE "C" NOT NULL,
	until  TIMESTAMPTZ NOT NULL
);

-- The change counter moves when what processes keep in memory is out of date, and is
-- seen when the change is: a sequence would move before it. It moves with the time, and so
-- to no number that it had before a backup was put back. Last uses do not count: they
-- are written all the time and nobody keeps them.
CREATE TABLE changes (
	id      BIGINT PRIMARY KEY CHECK (id = 1),
	counter BIGINT NOT NULL
);

INSERT INTO changes (id, counter) VALUES (1, 1);

CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE changes SET counter = greatest(counter + 1, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT));
	RETURN NULL;
END
$$;

CREATE TRIGGER secrets_counted AFTER INSERT OR DELETE OR TRUNCATE
	OR UPDATE OF tenant, name, version, key_version, authorities, reference, ciphertext, created, expires ON secrets
	FOR EACH STATEMENT EXECUTE FUNCTION count_change();
CREATE TRIGGER tenant_keys_counted AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON tenant_keys
	FOR EACH STATEMENT EXECUTE FUNCTION count_change();
CREATE TRIGGER tokens_counted AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON tokens
	FOR EACH STATEMENT EXECUTE FUNCTION count_change();
CREATE TRIGGER vault_counted AFTER UPDATE ON vault
	FOR EACH STATEMENT EXECUTE FUNCTION count_change();
