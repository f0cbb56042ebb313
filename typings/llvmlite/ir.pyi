from typing import Any

IntType: Any
VoidType: Any
FunctionType: Any
