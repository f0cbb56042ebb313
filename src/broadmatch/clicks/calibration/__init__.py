"""From scores to probabilities that hold, global and by slice."""
