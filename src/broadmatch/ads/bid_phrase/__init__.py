"""Which of an ad's bid phrases a query goes with: the query → bid phrase click model (SwiftXML §5)."""
