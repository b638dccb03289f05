from .cost import CountRow as CountRow
from .cost import flops_tables as flops_tables
from .cost import parameter_tables as parameter_tables
from .inverse_kernels import Figure as Figure
from .inverse_kernels import inverse_kernel_figures as inverse_kernel_figures
