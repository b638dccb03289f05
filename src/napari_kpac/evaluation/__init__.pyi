from .evaluating import Evaluation as Evaluation
from .evaluating import evaluate as evaluate
from .options import EvaluateOptions as EvaluateOptions
