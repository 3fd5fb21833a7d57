-- Keyed hashes of each secret and its words, a JSON array of hex: by them the
-- trail knows a stored value under whatever name it comes.

ALTER TABLE secrets ADD COLUMN fingerprints TEXT NOT NULL DEFAULT '[]';
