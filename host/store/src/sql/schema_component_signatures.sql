-- The signature of a component in minisign's format, for processes whose settings name a key.
ALTER TABLE component ADD COLUMN signature TEXT{| COLLATE "C"};
