"""Which model, and with which parameters: a rule by the data, and a search on training points that are held out."""
