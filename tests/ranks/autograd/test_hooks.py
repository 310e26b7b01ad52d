"""Hooks of every kind see DTensors and act as on one device, or are refused by name."""

import pytest
import torch
from autograd_support import equal_to_one_device, flat, wave
from ranks_support import on_ranks, refused

import hyper_parallel as hp

graph = torch.autograd.graph
PLACES = ["a=2: R", "a=2: S(0)"]


def number(gradient):
    return None if gradient is None else round(sum(flat(gradient)), 9)


@pytest.mark.parametrize("mode", ["all", "any"])
@pytest.mark.parametrize("text", PLACES)
def test_multi_grad_hooks(mode, text):
    def case(w, v):
        y = w * v
        a, b = y.split(2)
        seen = []

        def hook(gradients):
            several = isinstance(gradients, (list, tuple))
            seen.append([number(g) for g in (gradients if several else [gradients])])

        graph.register_multi_grad_hook([w, y, a, v], hook, mode=mode)
        (y.sin().sum() + b.sum() * 2).backward()
        y = w * v
        return [seen, len(seen)]

    on_ranks(2)(lambda: equal_to_one_device(case, ((4,), text), ((4,), text)))()


@pytest.mark.parametrize("text", PLACES)
def test_a_multi_grad_hook_waits_only_for_what_the_pass_runs(text):
    def case(w, v):
        c, d = w * v, w + v
        seen = []
        graph.register_multi_grad_hook(
            [w, v, c, d], lambda gradients: seen.append([g is not None for g in gradients])
        )
        c.sum().backward(retain_graph=True)
        c.sum().backward(inputs=[w], retain_graph=True)
        (c + d).sum().backward()
        assert seen == [[True, True, True, False], [True, False, True, False], [True] * 4]
        return [w.grad, v.grad]

    on_ranks(2)(lambda: equal_to_one_device(case, ((4,), text), ((4,), text)))()


@on_ranks(2)
def test_a_hook_before_the_node_sees_a_dtensor_and_may_change_it():
    def case(w):
        y = w.sin()
        seen = []

        def hook(gradients):
            assert type(gradients[0]) is type(w)
            seen.append(number(gradients[0]))
            return (gradients[0] * 3,)

        handle = y.grad_fn.register_prehook(hook)
        (y * 2).sum().backward(retain_graph=True)
        handle.remove()
        (y * 2).sum().backward()
        return [seen, w.grad]

    for text in PLACES:
        equal_to_one_device(case, ((4,), text))


@on_ranks(2)
def test_hooks_on_nodes_that_have_no_dtensors_to_show_are_refused():
    w = hp.distribute_tensor(wave(4), hp.Layout.parse("a=2: S(0)")).requires_grad_()
    y = w.sin()
    text = refused(hp.UnsupportedError, "HP-G020", y.grad_fn.register_hook, print)
    assert "register_prehook" in text
    part = y.split(2)[0]
    text = refused(hp.UnsupportedError, "HP-G020", part.grad_fn.register_prehook, print)
    assert "tensor.register_hook" in text


@on_ranks(2)
def test_a_hook_on_an_unused_output_is_called_with_none():
    def case(w):
        a, b = w.split(2)
        seen = []
        a.register_hook(lambda gradient: seen.append(gradient))
        b.sum().backward()
        return [seen, w.grad]

    for text in PLACES:
        equal_to_one_device(case, ((4,), text))


@pytest.mark.parametrize("text", ["a=2: R", "a=2: S(0)", "a=3: R", "a=3: S(0)"])
def test_hooks_may_give_plain_gradients_and_other_layouts(text):
    def plain(gradient):
        return wave(4, start=5)

    def moved(gradient):
        if isinstance(gradient, hp.DTensor):
            return gradient.redistribute(hp.Layout.parse(text.replace("R", "S(0)"))) * 2
        return gradient * 2

    def case_of(hook):
        def case(w):
            w.register_hook(hook)
            y = w.sin()
            y.register_hook(hook)
            (y * w).sum().backward()
            (w * 3).sum().backward()
            return [w.grad, getattr(w.grad, "placements", None) == getattr(w, "placements", None)]

        return case

    for hook in (plain, moved, lambda gradient: None):
        on_ranks(int(text[2]))(lambda h=hook: equal_to_one_device(case_of(h), ((4,), text)))()


@on_ranks(2)
def test_hooks_after_accumulation():
    def sums(w):
        seen = []
        w.register_post_accumulate_grad_hook(lambda leaf: seen.append(number(leaf.grad)))
        (w * w).sum().backward()
        (w * w).sum().backward()
        return [seen, w.grad]

    def optimizer_in_backward(w):
        optimizer = torch.optim.Adam([w], lr=0.1)

        def step(leaf):
            optimizer.step()
            optimizer.zero_grad()

        w.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            (w * w).sum().backward()
        return [w, w.grad]

    for text in PLACES:
        equal_to_one_device(sums, ((4,), text))
        equal_to_one_device(optimizer_in_backward, ((4,), text))


@on_ranks(2)
def test_edges_stand_for_tensors():
    def case(w):
        y = w.sin().split(2)[1]
        edges = [graph.get_gradient_edge(each) for each in (y, w)]
        inner = torch.autograd.grad((y * y).sum(), edges, retain_graph=True)
        outer = torch.autograd.grad([edges[0]], [w], grad_outputs=[torch.ones_like(y)])
        return [inner, outer]

    for text in PLACES:
        equal_to_one_device(case, ((4,), text))


@on_ranks(2)
def test_backward_hooks_of_modules():
    def case(x, weight, bias):
        module = torch.nn.Linear(4, 4)
        module.weight = torch.nn.Parameter(weight.detach())
        module.bias = torch.nn.Parameter(bias.detach())
        seen = []
        module.register_full_backward_hook(
            lambda module, into, out: seen.extend([number(into[0]), number(out[0])])
        )
        module.register_full_backward_pre_hook(lambda module, out: (out[0] * 2,))
        module(x).sin().sum().backward()
        return [seen, x.grad, module.weight.grad, module.bias.grad]

    for text in PLACES:
        equal_to_one_device(case, ((3, 4), text), ((4, 4), "a=2: S(0)"), ((4,), "a=2: S(0)"))
