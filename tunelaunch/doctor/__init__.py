"""What would go wrong at a start, and why a table is or is not used; found out before any weights are read."""
