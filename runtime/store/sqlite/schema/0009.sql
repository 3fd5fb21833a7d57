-- Once an approval is closed its request goes, and what is shown of it stays here.
ALTER TABLE approvals ADD COLUMN kept BLOB;
