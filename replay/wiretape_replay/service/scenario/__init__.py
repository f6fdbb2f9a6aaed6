"""What runs do, as people write it: TOML files, shipped ones among them."""
