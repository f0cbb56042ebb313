"""The tables of "Ad click prediction: a view from the trenches" (McMahan et al., KDD 2013) on data at hand."""
