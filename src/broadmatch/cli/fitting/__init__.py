"""What `broadmatch train` fits: which model, with which parameters, tuned or as given."""
