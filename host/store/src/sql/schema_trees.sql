-- The descendants that a root run has had, and how many its workflow allows. A child is counted
-- before it is created, and stays counted when it ends or is deleted. The row is deleted with the
-- last run of the tree.
CREATE TABLE tree (
    root  {INTEGER|BIGINT} PRIMARY KEY,
    born  {INTEGER|BIGINT} NOT NULL,
    bound {INTEGER|BIGINT} NOT NULL
){ STRICT|};

-- Runs that were asked to end. No descendant of them begins, except to undo a node.
CREATE TABLE ending (
    instance {INTEGER|BIGINT} PRIMARY KEY
){ STRICT|};

-- The root of a child's tree, the name of the root's workflow, and whether the child undoes a node:
-- such a child begins although runs above it are being cancelled.
ALTER TABLE origin ADD COLUMN root {INTEGER|BIGINT};
ALTER TABLE origin ADD COLUMN flow TEXT{| COLLATE "C"};
ALTER TABLE origin ADD COLUMN undoes {INTEGER|BOOLEAN};
UPDATE origin SET root = parent, flow = '', undoes = false WHERE parent IS NOT NULL;

CREATE INDEX origin_root ON origin (root) WHERE root IS NOT NULL;
