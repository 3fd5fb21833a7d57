-- The search index of a trail lies with the trail's files, in each home. Its table stood here
-- for the sake of sameness, and nothing was ever written to it.
DROP TABLE entries;
