"""Deblur an image or a folder on a SLURM cluster: ``python slurm.py INPUT OUTPUT``.

Needs "napari-kpac[all]" and dask-jobqueue. Start it where jobs are submitted; it must live as
long as the work lasts (tmux, or a small job of its own). If it dies, start it again: it goes on.
"""

import sys

from dask_jobqueue import SLURMCluster

import napari_kpac as kpac

PARTITION, ACCOUNT = "cpu", "imaging"  # ask your cluster's people
CORES, MEMORY, WALLTIME = 16, "64GB", "08:00:00"  # of one job
JOBS = 20  # at most, at a time
WAIT = 24 * 3600  # seconds for the first job to begin: the queue may be long
ENVIRONMENT = "$HOME/kpac"  # where napari-kpac is installed, seen by all nodes


def main(source: str, target: str) -> int:
    """Submit jobs, give them the work, and say how it ended."""
    with SLURMCluster(
        queue=PARTITION,
        account=ACCOUNT,
        cores=CORES,
        processes=CORES,  # a worker for every core: planes are independent, threads are not
        memory=MEMORY,
        walltime=WALLTIME,
        # Workers end by themselves before SLURM ends them, not all at once; others take over.
        worker_extra_args=["--lifetime", "465m", "--lifetime-stagger", "10m"],
        job_script_prologue=[f"source {ENVIRONMENT}/bin/activate"],
        log_directory="logs",
    ) as cluster:
        cluster.adapt(minimum_jobs=1, maximum_jobs=JOBS)  # fewer when little is left to do
        batch = kpac.BatchOptions(
            scheduler=cluster.scheduler_address,
            threads=1,
            wait=WAIT,
            record="record.jsonl",  # a line for every task: which worker, how long, what failed
        )
        # The budget of one worker; without it, each would take the whole node for its own.
        options = kpac.DeblurOptions(memory="3 GB")
        steps = kpac.deblur_files([source], target, options, batch=batch)
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                report = stop.value
                break
            print(f"{progress.done / progress.total:.1%} {progress.note}", flush=True)
    print(*report.lines(), sep="\n")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
