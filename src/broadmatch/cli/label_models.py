"""What `broadmatch train` can train: label models, and what makes sets of their rankings."""

from broadmatch.cli.estimators import Estimators

LABEL_MODELS = Estimators(
    "--model",
    {
        "mlrf": "labels.mlrf:MLRF",
        "fastxml": "labels.ranking_trees.fastxml:FastXML",
        "pfastrexml": "labels.ranking_trees.pfastrexml:PfastreXML",
        "swiftxml": "labels.ranking_trees.swiftxml:SwiftXML",
        "one-vs-rest": "labels.one_vs_rest:OneVsRest",
        "adaboost-lc": "labels.adaboost_lc:AdaBoostLC",
    },
    without=("patience",),  # it goes by points to evaluate on, which a training does not get
)
SET_MODELS = Estimators(
    "--howmany",
    {
        "metalabeler": "sets.metalabeler:MetaLabeler",
        "rcut": "sets.cuts:RCut",
        "pcut": "sets.cuts:PCut",
        "scut": "sets.scut:SCut",
        "threshold": "sets.threshold:Threshold",
        "target": "sets.threshold:TargetCut",
    },
    without=("model", "counter"),
)
