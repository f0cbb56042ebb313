"""Quality of traffic while it is served and learned from: hourly figures, where they are kept, the last as gauges."""

from broadmatch.evaluate.traffic_quality.figures import METRICS, Figure, HourFigures
from broadmatch.evaluate.traffic_quality.folder import QualityFolder, QualityGauge, quality_gauges
from broadmatch.evaluate.traffic_quality.watch import TrafficQuality, TrafficWatch

__all__ = [
    "METRICS",
    "Figure",
    "HourFigures",
    "QualityFolder",
    "QualityGauge",
    "TrafficQuality",
    "TrafficWatch",
    "quality_gauges",
]
