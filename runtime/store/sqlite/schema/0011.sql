-- Where everything but the index of the trail is, when it is not in this file, and by what
-- name this home is known there.
CREATE TABLE elsewhere (
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	name TEXT    NOT NULL,
	home TEXT    NOT NULL
) STRICT;
