"""What campaigns spent today, by the event log, and how that paces them."""
