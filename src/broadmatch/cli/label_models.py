"""What `broadmatch train` can train: label models, and what makes sets of their rankings."""

from broadmatch.cli.estimators import Estimators

LABEL_MODELS = Estimators(
    "--model",
    {
        "mlrf": "labels.mlrf:MLRF",
        "fastxml": "labels.fastxml:FastXML",
        "pfastrexml": "labels.pfastrexml:PfastreXML",
        "swiftxml": "labels.swiftxml:SwiftXML",
        "one-vs-rest": "labels.one_vs_rest:OneVsRest",
        "adaboost-lc": "labels.adaboost_lc:AdaBoostLC",
    },
    without=("patience",),  # it goes by points to evaluate on, which a training does not get
)
SET_MODELS = Estimators(
    "--howmany",
    {
        "metalabeler": "howmany.metalabeler:MetaLabeler",
        "rcut": "howmany.cuts:RCut",
        "pcut": "howmany.cuts:PCut",
        "scut": "howmany.scut:SCut",
        "threshold": "howmany.threshold:Threshold",
        "target": "howmany.threshold:TargetCut",
    },
    without=("model", "counter"),
)
