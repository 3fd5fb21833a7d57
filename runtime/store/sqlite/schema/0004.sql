-- Keys of tenants have versions, secrets say which one they are sealed under and
-- where their value is fetched, and a vault can be locked for all processes.

CREATE TABLE tenant_keys_2 (
	tenant  TEXT    NOT NULL,
	version INTEGER NOT NULL,
	wrapped BLOB    NOT NULL,
	created INTEGER NOT NULL,
	PRIMARY KEY (tenant, version)
) STRICT, WITHOUT ROWID;

INSERT INTO tenant_keys_2 (tenant, version, wrapped, created) SELECT tenant, 1, wrapped, 0 FROM tenant_keys;
DROP TABLE tenant_keys;
ALTER TABLE tenant_keys_2 RENAME TO tenant_keys;

ALTER TABLE secrets ADD COLUMN key_version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE secrets ADD COLUMN reference TEXT NOT NULL DEFAULT '';

ALTER TABLE vault ADD COLUMN locked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE vault ADD COLUMN locked_by TEXT NOT NULL DEFAULT '';

CREATE TRIGGER tenant_keys_added AFTER INSERT ON tenant_keys
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER tenant_keys_changed AFTER UPDATE ON tenant_keys
BEGIN UPDATE changes SET counter = counter + 1; END;
CREATE TRIGGER tenant_keys_removed AFTER DELETE ON tenant_keys
BEGIN UPDATE changes SET counter = counter + 1; END;

CREATE TRIGGER vault_changed AFTER UPDATE ON vault
BEGIN UPDATE changes SET counter = counter + 1; END;
