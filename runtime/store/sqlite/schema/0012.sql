-- Which process has yet to tell people of a question: one that was killed before it could
-- leaves its name here, and another tells. Of questions from before nobody has to.
ALTER TABLE approvals ADD COLUMN teller TEXT NOT NULL DEFAULT '';
