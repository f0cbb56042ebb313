"""KEX: bid phrases that stand on the page itself."""
