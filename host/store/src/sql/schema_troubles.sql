-- How often in a row an occurrence of a schedule could not be planned. While that is not 0,
-- `next_ms` is when planning is tried again. Schedules in trouble are looked at apart, so that
-- however many there are, those that are well are found at once.
ALTER TABLE schedule ADD COLUMN troubles {INTEGER|BIGINT} NOT NULL DEFAULT 0;

CREATE INDEX schedule_well ON schedule (next_ms, no) WHERE troubles = 0;
CREATE INDEX schedule_troubled ON schedule (next_ms, no) WHERE troubles > 0;
