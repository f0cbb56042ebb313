"""GridViz: models × slices at a glance (McMahan et al., KDD 2013, §5.2): the grid, its file, its page."""

from broadmatch.evaluate.gridviz.build import build_grid
from broadmatch.evaluate.gridviz.file import read_grid, write_grid
from broadmatch.evaluate.gridviz.grid import Grid, GridGroup, GridMetric, GridPeriod
from broadmatch.evaluate.gridviz.measure import OwnMetric

__all__ = ["Grid", "GridGroup", "GridMetric", "GridPeriod", "OwnMetric", "build_grid", "read_grid", "write_grid"]
