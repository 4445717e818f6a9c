-- The signature of a component, as minisign writes it, for processes whose settings name a key.
ALTER TABLE component ADD COLUMN signature TEXT{| COLLATE "C"};
