-- When a sweep last found the component used; null until the first sweep.
ALTER TABLE component ADD COLUMN used_ms INTEGER;
