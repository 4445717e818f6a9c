-- The lowest layout that a program has to know to work on this store, and the version of the
-- program that brought the store there. A program that knows this layout works on the store,
-- whether or not it knows the steps behind it.
CREATE TABLE requirement (
    no      {INTEGER|BIGINT} PRIMARY KEY CHECK (no = 1),
    layout  {INTEGER|BIGINT} NOT NULL,
    program TEXT{| COLLATE "C"} NOT NULL
){ STRICT|};

-- The version of the member's program, and the newest layout that it knows. Absent for members
-- whose program does not know this step.
ALTER TABLE member ADD COLUMN program TEXT{| COLLATE "C"};
ALTER TABLE member ADD COLUMN layout {INTEGER|BIGINT};
