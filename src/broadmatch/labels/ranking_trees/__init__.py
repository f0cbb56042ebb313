"""FastXML, PfastreXML and SwiftXML: trees whose nodes rank labels."""
