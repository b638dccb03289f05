from .options import EvaluateOptions as EvaluateOptions
from .study import Evaluation as Evaluation
from .study import evaluate as evaluate
