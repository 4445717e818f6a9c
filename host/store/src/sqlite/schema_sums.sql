-- Checksums over the key and the content of rows; absent where an older layout wrote the row.
ALTER TABLE instance ADD COLUMN state_sum INTEGER;
ALTER TABLE instance ADD COLUMN output_sum INTEGER;
ALTER TABLE origin ADD COLUMN sum INTEGER;
ALTER TABLE var ADD COLUMN sum INTEGER;
ALTER TABLE item ADD COLUMN sum INTEGER;
ALTER TABLE scope ADD COLUMN sum INTEGER;
ALTER TABLE run ADD COLUMN sum INTEGER;
ALTER TABLE blob ADD COLUMN sum INTEGER;
