from .simrank import simrank as simrank
