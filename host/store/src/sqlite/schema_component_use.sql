-- Since when nobody has said that a component is used; none until somebody looks.
ALTER TABLE component ADD COLUMN used_ms INTEGER;
