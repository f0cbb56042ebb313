"""HTML to words in one pass, without a tree."""

from broadmatch.features.html_scan.scan import Page, WordCounts, WordRows, scan_pages

__all__ = ["Page", "WordCounts", "WordRows", "scan_pages"]
