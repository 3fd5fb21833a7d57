-- A lock of the vault may end by itself.
ALTER TABLE vault ADD COLUMN locked_until INTEGER NOT NULL DEFAULT 0;
