"""Feature and label matrices, and hierarchies of labels, in the formats people have."""
