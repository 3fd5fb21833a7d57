-- Who can prove that they are a person, who has said yes so far where several
-- must, and what a yes allows for longer than once.

CREATE TABLE pins (
	tenant TEXT    NOT NULL,
	who    TEXT    NOT NULL,
	sealed BLOB    NOT NULL,
	set_at INTEGER NOT NULL,
	tries  INTEGER NOT NULL,
	until  INTEGER NOT NULL,
	PRIMARY KEY (tenant, who)
) STRICT, WITHOUT ROWID;

CREATE TABLE votes (
	tenant   TEXT    NOT NULL,
	approval TEXT    NOT NULL,
	who      TEXT    NOT NULL,
	proof    BLOB    NOT NULL,
	given    INTEGER NOT NULL,
	PRIMARY KEY (tenant, approval, who)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
	tenant  TEXT    NOT NULL,
	id      TEXT    NOT NULL,
	scope   TEXT    NOT NULL,
	sealed  BLOB    NOT NULL,
	expires INTEGER NOT NULL,
	revoked INTEGER NOT NULL,
	PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX grants_of ON grants (tenant, scope, expires);
CREATE INDEX approvals_of_action ON approvals (tenant, action, decided);
