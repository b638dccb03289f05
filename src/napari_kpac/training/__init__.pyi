from .loop import Trained as Trained
from .loop import TrainProgress as TrainProgress
from .loop import read_trained as read_trained
from .loop import resume as resume
from .loop import train as train
from .options import PRESETS as PRESETS
from .options import TrainOptions as TrainOptions
from .options import preset as preset
