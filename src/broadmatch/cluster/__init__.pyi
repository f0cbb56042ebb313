from .engine import Engine as Engine
from .engine import Ref as Ref
from .engine import ThreadEngine as ThreadEngine
from .ray_engine import RayEngine as RayEngine
