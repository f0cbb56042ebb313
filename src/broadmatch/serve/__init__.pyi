from .config import ServeConfig as ServeConfig
