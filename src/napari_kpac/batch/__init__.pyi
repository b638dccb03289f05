from .blur_maps import blur_map_files as blur_map_files
from .dask_arrays import deblur_dask as deblur_dask
from .deblur import attention_files as attention_files
from .deblur import deblur_files as deblur_files
from .options import BatchOptions as BatchOptions
from .report import FileProgress as FileProgress
from .report import Outcome as Outcome
from .report import Report as Report
