-- Scripts: what has become of each, and in what order its calls were answered,
-- so that one that waits for a person can be run again up to where it was.
-- Sources, arguments and results are sealed.

CREATE TABLE executions (
	id        TEXT    NOT NULL PRIMARY KEY,
	tenant    TEXT    NOT NULL,
	principal TEXT    NOT NULL,
	state     TEXT    NOT NULL,
	holder    TEXT    NOT NULL,
	script    BLOB    NOT NULL,
	result    BLOB,
	created   INTEGER NOT NULL,
	expires   INTEGER NOT NULL
) STRICT;

CREATE INDEX executions_by_end ON executions (expires);

CREATE TABLE execution_calls (
	execution TEXT    NOT NULL REFERENCES executions (id) ON DELETE CASCADE,
	step      INTEGER NOT NULL,
	settled   INTEGER NOT NULL,
	sealed    BLOB    NOT NULL,
	PRIMARY KEY (execution, step)
) STRICT, WITHOUT ROWID;

-- Records of the trail say which script they belong to. Rows from before are of none.
ALTER TABLE entries ADD COLUMN execution TEXT NOT NULL DEFAULT '';
ALTER TABLE entries ADD COLUMN step INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entries_by_execution ON entries (execution) WHERE execution <> '';
