from typing import Any

IntType: Any
VoidType: Any
FunctionType: Any
FloatType: Any
VectorType: Any
Constant: Any
Undefined: Any
