"""How the tables of the signal index came to be, step by step; each step is run once, in a transaction."""
