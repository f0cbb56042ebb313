"""Warm starts: SwiftXML beside PfastreXML, its two fusions and recommenders, a part of the labels revealed."""
