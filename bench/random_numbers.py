"""Random numbers of 8M elements on 8 ranks: the work of a rank over its share of plain torch's.

Ranks are threads that share the cores, so work is counted in processor time of each thread, over an
eighth of the time in which plain torch draws the whole. 1 means that a rank does its share.
"""

import time

import torch

import hyper_parallel as hp

COUNT, RANKS, REPEATS = 8 * 2**20, 8, 3
OPS = {
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "exponential_": lambda x: x.exponential_(),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.1),
}


def seconds(call):
    """The least processor time of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def on_ranks(op, mode):
    def on_rank():
        mesh = hp.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        x = hp.distribute_tensor(torch.zeros(RANKS, COUNT // RANKS), mesh, [hp.Shard(0)])
        with hp.random_mode(mode):
            op(x)  # plans are made
            yield_to_all()
            return seconds_of_all(lambda: op(x))

    return on_rank


def yield_to_all():
    """Meet, so that all ranks draw at the same time."""
    hp.all_reduce(torch.zeros(1), "dp", mesh=hp.Layout((RANKS,), ("dp",)))


def seconds_of_all(call):
    start = time.thread_time()
    for _ in range(REPEATS):
        call()
    return (time.thread_time() - start) / REPEATS


def main():
    torch.set_num_threads(1)
    print(f"{COUNT:,} f32 numbers, {RANKS} ranks; work of a rank over an eighth of plain torch's")
    print(f"{'op':14s} {'plain, ms':>10s} {'by index':>9s} {'exact':>7s}")
    worst = 0.0
    for name, op in OPS.items():
        x = torch.zeros(RANKS, COUNT // RANKS)
        share = seconds(lambda op=op, x=x: op(x)) / RANKS
        row = []
        for mode in ("by_index", "exact"):
            row.append(max(hp.run_local(on_ranks(op, mode), RANKS)) / share)
        worst = max(worst, row[0])
        print(f"{name:14s} {1000 * share * RANKS:10.1f} {row[0]:9.2f} {row[1]:7.2f}")
    print(f"random_by_index_vs_share={worst:.2f}")


if __name__ == "__main__":
    main()
