-- How long what is kept of scripts is, of each and by whose they are: it is bounded, and
-- nobody reads it all to know. A page is added to each for its rows.
ALTER TABLE executions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE executions SET bytes = 4096 + length(script) + coalesce(length(result), 0)
	+ (SELECT coalesce(sum(length(sealed)), 0) FROM execution_calls WHERE execution = executions.id);
CREATE INDEX executions_that_ended ON executions (tenant, principal, expires) WHERE state = 'ended';

CREATE TABLE execution_shares (
	tenant    TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	bytes     INTEGER NOT NULL,
	PRIMARY KEY (tenant, principal)
) STRICT, WITHOUT ROWID;
INSERT INTO execution_shares SELECT tenant, principal, sum(bytes) FROM executions GROUP BY tenant, principal;

CREATE TRIGGER executions_added AFTER INSERT ON executions
BEGIN
	INSERT INTO execution_shares (tenant, principal, bytes) VALUES (new.tenant, new.principal, new.bytes)
	ON CONFLICT (tenant, principal) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER executions_grown AFTER UPDATE OF bytes ON executions
BEGIN
	UPDATE execution_shares SET bytes = bytes + new.bytes - old.bytes WHERE tenant = new.tenant AND principal = new.principal;
END;
CREATE TRIGGER executions_removed AFTER DELETE ON executions
BEGIN
	UPDATE execution_shares SET bytes = bytes - old.bytes WHERE tenant = old.tenant AND principal = old.principal;
	DELETE FROM execution_shares WHERE tenant = old.tenant AND principal = old.principal AND bytes <= 0;
END;
