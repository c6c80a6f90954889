"""What runs the workers of a mesh: threads, processes that talk by MPI, or by something else.

ll.Sharded(plan, device, engine=ll.engines.MPI(cluster))
"""

from luminal_lab.workers.compiler import Engine
from luminal_lab.workers.mpi import MPI
from luminal_lab.workers.ops import Communicator
from luminal_lab.workers.processes import Processes
from luminal_lab.workers.threads import Threads

__all__ = ["MPI", "Communicator", "Engine", "Processes", "Threads"]
