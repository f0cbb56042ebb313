from typing import Any

InputTags: Any
Tags: Any
TargetTags: Any
TransformerTags: Any
ClassifierTags: Any
