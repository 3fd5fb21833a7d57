-- What is held of a request may be megabytes, so it lies apart from the approval: a row that
-- is looked at several times a second, and written at each move, is a short one.
CREATE TABLE held (
	tenant   TEXT NOT NULL,
	approval TEXT NOT NULL,
	sealed   BLOB NOT NULL,
	PRIMARY KEY (tenant, approval),
	FOREIGN KEY (tenant, approval) REFERENCES approvals (tenant, id) ON DELETE CASCADE
) STRICT;

INSERT INTO held (tenant, approval, sealed) SELECT tenant, id, sealed FROM approvals WHERE sealed IS NOT NULL;
ALTER TABLE approvals DROP COLUMN sealed;
