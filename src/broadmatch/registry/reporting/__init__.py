"""Learners and the index: quick looks into it, and reports that wait and are handed over; no database is loaded."""
