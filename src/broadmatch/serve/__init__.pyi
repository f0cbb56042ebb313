from .config import ServeConfig as ServeConfig
from .publishing import PublishedModels as PublishedModels
