"""The planner: phrases for a page from all models, what logs say of them, why each is there, and files to export."""
