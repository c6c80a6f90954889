"""attention"""
from luminal_lab.kernels.schedule import Scheduling
from luminal_lab.kernels.gpu import GPU


def attention_plan(made: Scheduling, gpu: GPU) -> bool:
    return False
