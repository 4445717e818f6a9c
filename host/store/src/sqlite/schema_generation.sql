-- Counts the groups after which what the marker beside the store rests on may be gone.
ALTER TABLE own ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
