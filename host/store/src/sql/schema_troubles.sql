-- How many times in a row planning has failed. If it is not 0, `next_ms` is the time of the next
-- attempt. Schedules in trouble have an index of their own, so that many of them do not slow the
-- search for the others down.
ALTER TABLE schedule ADD COLUMN troubles {INTEGER|BIGINT} NOT NULL DEFAULT 0;

CREATE INDEX schedule_well ON schedule (next_ms, no) WHERE troubles = 0;
CREATE INDEX schedule_troubled ON schedule (next_ms, no) WHERE troubles > 0;
