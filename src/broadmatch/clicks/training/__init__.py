"""Learning from logs: batches, late clicks, subsampling, checkpoints."""
