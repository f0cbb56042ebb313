from .beliefs import beliefs_in_shards as beliefs_in_shards
from .engine import Engine as Engine
from .engine import Ref as Ref
from .engine import ThreadEngine as ThreadEngine
from .mlrf import fit_mlrf as fit_mlrf
from .ray_engine import RayEngine as RayEngine
