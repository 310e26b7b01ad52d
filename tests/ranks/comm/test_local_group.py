"""Every collective of LocalGroup, through the functional ops and through c10d."""

from functools import reduce

import pytest
import torch
import torch.distributed as dist
from ranks_support import functional, group, group_name, same_bits, value, values, wait

from hyper_parallel import rank, run_local, world_size

WORLDS = [2, 3, 4, 5]
WIDE = [torch.float64, torch.float32, torch.complex64, torch.complex128]
NARROW = [torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
BITWISE = {"band": torch.bitwise_and, "bor": torch.bitwise_or, "bxor": torch.bitwise_xor}


def expected_reduction(op, tensors):
    """Combine in rank order, narrow floats in float32 as promised."""
    dtype = tensors[0].dtype
    wide = [t.float() if dtype in NARROW else t for t in tensors]
    if op in ("sum", "avg"):
        total = reduce(torch.add, wide)
        if op == "avg":
            parts = torch.view_as_real(total) if dtype.is_complex else total
            rounding = "trunc" if dtype in INTEGERS else None
            parts = torch.div(parts, len(tensors), rounding_mode=rounding)
            total = torch.view_as_complex(parts) if dtype.is_complex else parts
    elif op == "product":
        total = reduce(torch.mul, wide)
    else:
        table = {"max": torch.maximum, "min": torch.minimum} | BITWISE
        total = reduce(table[op], wide)
    return total.to(dtype)


def combinations():
    for dtype in WIDE + NARROW + INTEGERS + [torch.bool]:
        for op in ["sum", "avg", "product", "max", "min", *BITWISE]:
            integral = dtype in INTEGERS or dtype == torch.bool
            if (
                (op in BITWISE and not integral)
                or (op in ("max", "min") and dtype.is_complex)
                or (op == "avg" and dtype == torch.bool)
            ):
                continue
            yield dtype, op


@pytest.mark.parametrize("world", WORLDS)
def test_all_reduce_of_every_type_has_equal_bits_on_all_ranks(world):
    options = {
        "sum": dist.ReduceOp.SUM,
        "avg": dist.ReduceOp.AVG,
        "product": dist.ReduceOp.PRODUCT,
        "max": dist.ReduceOp.MAX,
        "min": dist.ReduceOp.MIN,
        "band": dist.ReduceOp.BAND,
        "bor": dist.ReduceOp.BOR,
        "bxor": dist.ReduceOp.BXOR,
    }

    def body():
        out = []
        for dtype, op in combinations():
            tensors = values((3, 5), dtype)
            expected = expected_reduction(op, tensors)
            mine = tensors[rank()].clone()
            group().allreduce([mine], options[op]).wait()
            # torch may fuse the multiply and add of a complex product.
            bits = {"rtol": 0, "atol": 0} if not (dtype.is_complex and op == "product") else {}
            torch.testing.assert_close(mine, expected, **bits, msg=f"{dtype} {op}")
            out.append(mine)
            if not dtype.is_complex or op in ("sum", "avg"):
                kept = tensors[rank()].clone()
                assert torch.equal(wait(functional.all_reduce(kept, op, group_name())), expected)
                assert torch.equal(kept, tensors[rank()])
        return out

    for results in zip(*run_local(body, world), strict=True):
        assert same_bits(results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("numel", [0, 1, 1000, 1_000_003])
def test_large_and_odd_sizes_are_cut_between_ranks(dtype, numel):
    def body():
        tensors = values((numel,), dtype)
        mine = wait(functional.all_reduce(tensors[rank()], "sum", group_name()))
        assert torch.equal(mine, expected_reduction("sum", tensors))
        whole = wait(functional.all_gather_into_tensor(tensors[rank()], 3, group_name()))
        assert torch.equal(whole, torch.cat(tensors))
        summed = wait(functional.reduce_scatter_tensor(whole, "sum", 3, group_name()))
        assert torch.equal(summed, (tensors[rank()] * 3).to(dtype))
        return mine

    assert same_bits(run_local(body, 3))


def test_maximum_and_minimum_keep_nan():
    def body():
        x = torch.tensor([float("nan") if rank() == 1 else 1.0, float(rank())])
        return [wait(functional.all_reduce(x, op, group_name())).tolist() for op in ("max", "min")]

    for (high_nan, high), (low_nan, low) in run_local(body, 3):
        assert high_nan != high_nan and low_nan != low_nan
        assert (high, low) == (2.0, 0.0)


@pytest.mark.parametrize("world", [1, *WORLDS])
def test_functional_gather_scatter_and_exchange(world):
    if world == 1:
        assert run_local(lambda: (rank(), world_size()), 1) == [(0, 1)]
        return

    def body():
        me, name = rank(), group_name()
        tensors = values((2 * world, 3))
        x = tensors[me]
        gathered = wait(functional.all_gather_into_tensor(x, world, name))
        assert torch.equal(gathered, torch.cat(tensors))
        total = sum(tensors[1:], tensors[0])
        part = wait(functional.reduce_scatter_tensor(x, "sum", world, name))
        assert torch.equal(part, total[2 * me : 2 * me + 2])
        assert torch.equal(wait(functional.broadcast(x, world - 1, name)), tensors[-1])
        exchanged = wait(functional.all_to_all_single(x, [2] * world, [2] * world, name))
        assert torch.equal(exchanged, torch.cat([t[2 * me : 2 * me + 2] for t in tensors]))

        # Rank s sends s + d rows to rank d.
        rows = [me + d for d in range(world)]
        blocks = [[value(10 * s + d, (s + d, 2)) for d in range(world)] for s in range(world)]
        uneven = wait(functional.all_to_all_single(torch.cat(blocks[me]), rows, rows, name))
        assert torch.equal(uneven, torch.cat([blocks[s][me] for s in range(world)]))

    run_local(body, world)


@pytest.mark.parametrize("world", WORLDS)
def test_functional_coalesced(world):
    def body():
        name = group_name()
        of_rank = [
            [value(r, (world, 2)), value(r, (world,), torch.int64), value(r, (0, 4))]
            for r in range(world)
        ]
        mine = of_rank[rank()]
        columns = list(zip(*of_rank, strict=True))
        for got, column in zip(
            wait(functional.all_reduce_coalesced(mine, "sum", name)), columns, strict=True
        ):
            assert torch.equal(got, reduce(torch.add, column))
        gathered = wait(functional.all_gather_into_tensor_coalesced(mine, world, name))
        for got, column in zip(gathered, columns, strict=True):
            assert torch.equal(got, torch.cat(column))
        mine, columns = mine[:2], columns[:2]
        scattered = wait(functional.reduce_scatter_tensor_coalesced(mine, "max", world, name))
        for got, column in zip(scattered, columns, strict=True):
            assert torch.equal(got, reduce(torch.maximum, column)[rank() : rank() + 1])

    run_local(body, world)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_c10d_list_forms_with_uneven_sizes(dtype):
    world = 3

    def body():
        me, pg = rank(), group()
        pieces = [value(r, (r + 1, 2), dtype) for r in range(world)]
        outputs = [torch.empty_like(p) for p in pieces]
        pg.allgather([outputs], [pieces[me]]).wait()
        assert all(map(torch.equal, outputs, pieces))

        lists = [[value(10 * r + d, (d + 1, 2), dtype) for d in range(world)] for r in range(world)]
        out = torch.empty_like(pieces[me])
        pg.reduce_scatter([out], [lists[me]]).wait()
        assert torch.equal(out, expected_reduction("sum", [lists[r][me] for r in range(world)]))

        received = [torch.empty_like(lists[r][me]) for r in range(world)]
        pg.alltoall(received, lists[me]).wait()
        assert all(map(torch.equal, received, [lists[r][me] for r in range(world)]))

        gathered = [torch.empty_like(p) for p in pieces]
        gather = dist.GatherOptions()
        gather.rootRank = 1
        pg.gather([gathered] if me == 1 else [], [pieces[me]], gather).wait()
        assert me != 1 or all(map(torch.equal, gathered, pieces))

        out = torch.empty_like(pieces[me])
        scatter = dist.ScatterOptions()
        scatter.rootRank = 2
        pg.scatter([out], [pieces] if me == 2 else [], scatter).wait()
        assert torch.equal(out, pieces[me])

        mine = value(me, (4,), dtype)
        options = dist.ReduceOptions()
        options.rootRank = 2
        pg.reduce([mine], options).wait()
        whole = values((4,), dtype)
        assert torch.equal(mine, expected_reduction("sum", whole) if me == 2 else whole[me])
        pg.barrier().wait()

    run_local(body, world)


def test_c10d_base_forms_and_futures():
    def body():
        me, pg = rank(), group()
        tensors = values((4,))
        whole = torch.empty(8)
        work = pg._allgather_base(whole, tensors[me])
        assert work.is_completed() and work.wait()
        assert torch.equal(whole, torch.cat(tensors))
        assert torch.equal(work.get_future().value()[0], whole)
        part = torch.empty(2)
        pg._reduce_scatter_base(part, tensors[me]).wait()
        assert torch.equal(part, (tensors[0] + tensors[1])[2 * me : 2 * me + 2])
        # In place: the output is the own part of the input, and the other way round.
        pg._reduce_scatter_base(tensors[me][2 * me : 2 * me + 2], tensors[me]).wait()
        assert torch.equal(tensors[me][2 * me : 2 * me + 2], part)
        pg._allgather_base(tensors[me], tensors[me][2 * me : 2 * me + 2]).wait()
        return tensors[me]

    assert same_bits(run_local(body, 2))


def test_tensors_that_are_not_contiguous():
    def body():
        tensors = values((4, 6))
        view = tensors[rank()].clone().t()[::2]
        group().allreduce([view]).wait()
        assert torch.equal(view, (tensors[0] + tensors[1]).t()[::2])

    run_local(body, 2)


def test_parameters():
    def body():
        weight = torch.nn.Parameter(torch.ones(2, 3).t())
        with torch.no_grad():
            group().allreduce([weight]).wait()
        assert weight.is_leaf and weight.grad_fn is None
        (weight * 2).sum().backward()
        return weight.detach().clone()

    assert torch.equal(run_local(body, 2)[0], torch.full((3, 2), 2.0))


def test_messages_match_by_source_and_tag_in_order():
    def body():
        me, pg, other = rank(), group(), 1 - rank()
        # Both post receives first, then send: nothing blocks.
        a, b, c = torch.zeros(2), torch.zeros(2), torch.zeros(2)
        receives = [pg.recv([a], other, 7), pg.recv([b], other, 8), pg.recv([c], other, 7)]
        for number, tag in ((1, 8), (2, 7), (3, 7)):
            pg.send([torch.full((2,), 10.0 * me + number)], other, tag).wait()
        for work in reversed(receives):
            work.wait()
        return [a[0].item(), b[0].item(), c[0].item()]

    assert run_local(body, 2) == [[12.0, 11.0, 13.0], [2.0, 1.0, 3.0]]


def test_receive_from_any_source():
    def body():
        if rank() == 0:
            seen = set()
            for _ in range(2):
                x = torch.zeros(1)
                work = group().recv_anysource([x], 0)
                work.wait()
                assert x.item() == work._source_rank()
                seen.add(x.item())
            return seen
        group().send([torch.tensor([float(rank())])], 0, 0).wait()

    assert run_local(body, 3)[0] == {1.0, 2.0}


def test_groups_of_some_ranks_are_made_by_their_members_only():
    def body():
        me = rank()
        row = [0, 1] if me < 2 else [2, 3]
        column = [me % 2 + 2, me % 2]  # not sorted: the order of members is that of the list
        x = torch.tensor([float(me)])
        in_row = wait(functional.all_gather_into_tensor(x, 2, group_name(row)))
        in_column = wait(functional.all_gather_into_tensor(x, 2, group_name(column)))
        assert in_row.tolist() == row
        assert in_column.tolist() == column
        if me in (0, 3):
            both = wait(functional.all_reduce(x, "sum", group_name([3, 0])))
            assert both.item() == 3.0
        assert group_name(row) is not None and group_name(row) == group_name(row)
        return group_name(row)

    names = run_local(body, 4)
    assert len(set(names)) == 4


def test_many_small_collectives_stay_in_step():
    def body():
        name, x = group_name(), torch.ones(3)
        for _ in range(300):
            x = wait(functional.all_reduce(x, "avg", name)) + 1
        return x

    for result in run_local(body, 4):
        assert torch.equal(result, torch.full((3,), 301.0))


def test_collectives_in_backward_run_on_the_rank_itself():
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return wait(functional.all_reduce(x, "sum", group_name()))

        @staticmethod
        def backward(ctx, grad):
            return wait(functional.all_reduce(grad, "sum", group_name()))

    def body():
        x = torch.full((2,), float(rank()), requires_grad=True)
        (Sum.apply(x) * (rank() + 1)).sum().backward()
        return x.grad.tolist()

    assert run_local(body, 3) == [[6.0, 6.0]] * 3
