-- Rate limits: the moment, in nanoseconds since 1970 UTC, at which a bucket is
-- full again. Tokens have groups as they have roles.

CREATE TABLE limits (
	bucket  TEXT    PRIMARY KEY,
	full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE tokens ADD COLUMN groups TEXT NOT NULL DEFAULT '[]';
