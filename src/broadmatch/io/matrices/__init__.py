"""Feature and label matrices in the formats people have."""
