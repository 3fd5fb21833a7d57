-- Where everything but the index of the trail is, when it is not in this file.
CREATE TABLE elsewhere (
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	name TEXT    NOT NULL
) STRICT;
