"""What tests share: builders, stand-ins and clusters; no tests."""
