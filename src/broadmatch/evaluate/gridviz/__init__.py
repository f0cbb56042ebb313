"""GridViz: models × slices at a glance (McMahan et al., KDD 2013, §5.2): grid, file, page, picture and table."""

from broadmatch.evaluate.gridviz.build import build_grid
from broadmatch.evaluate.gridviz.changes import Changes, changes, discoveries, grid_table, significant, write_table
from broadmatch.evaluate.gridviz.file import read_grid, write_grid
from broadmatch.evaluate.gridviz.grid import Grid, GridGroup, GridMetric, GridPeriod
from broadmatch.evaluate.gridviz.measure import OwnMetric
from broadmatch.evaluate.gridviz.page import page_html, write_page
from broadmatch.evaluate.gridviz.picture import write_picture

__all__ = [
    "Changes",
    "Grid",
    "GridGroup",
    "GridMetric",
    "GridPeriod",
    "OwnMetric",
    "build_grid",
    "changes",
    "discoveries",
    "grid_table",
    "page_html",
    "read_grid",
    "significant",
    "write_grid",
    "write_page",
    "write_picture",
    "write_table",
]
