"""Distributed tensors: global sizes outside, this rank's part and a layout inside."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from hyper_parallel import _torch
from hyper_parallel._core import Layout_, Placement
from hyper_parallel.dtensors import indexing, intermediates
from hyper_parallel.errors import usage_error
from hyper_parallel.launch.failures import naming_failures
from hyper_parallel.launch.ranks import rank
from hyper_parallel.layouts.layout import Layout
from hyper_parallel.layouts.layout_specs import is_layout_spec, layout_of_arguments, resolve_layout
from hyper_parallel.layouts.mesh import DeviceMesh
from hyper_parallel.local.region import is_raw

__all__ = ["DTensor", "distribute_tensor"]

_get_grad = torch.Tensor.grad.__get__  # type: ignore[attr-defined]
_set_grad = torch.Tensor.grad.__set__  # type: ignore[attr-defined]


class DTensor(torch.Tensor):
    """A tensor whose parts lie on the ranks of a mesh.

    It has the sizes of the whole tensor and is used as one: each op derives layouts, communicates
    where it must, and runs on this rank's part. Plain tensors beside it count as the same value
    on every rank.

        x = distribute_tensor(value, mesh, [Shard(0)])
        x = DTensor.from_local(part, mesh, [Shard(0)])
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, local_tensor: torch.Tensor, device_mesh: Any, placements: Any) -> DTensor:
        return cls.from_local(local_tensor, device_mesh, placements)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    # ---- What it is ------------------------------------------------------------------------

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that the tensor lies on."""
        return DeviceMesh._of(_torch.layout(self).mesh, self.device.type)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One placement an axis of the mesh."""
        return tuple(_torch.layout(self).placements)

    @property
    def layout(self) -> Layout:
        """How the tensor lies over its mesh."""
        return Layout._of(_torch.layout(self), self.dim())

    @property
    def local_shape(self) -> torch.Size:
        """The shape of this rank's part."""
        return _torch.local(self).shape

    # ---- In and out ------------------------------------------------------------------------

    @staticmethod
    def from_local(
        local_tensor: torch.Tensor,
        device_mesh: Any = None,
        placements: Any = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Any = None,
    ) -> DTensor:
        """Make a DTensor of the parts that ranks hold.

        Args:
            local_tensor: this rank's part.
            device_mesh: a mesh, ours or torch's; or a configured ``Layout`` and no placements.
            placements: one an axis, or a ``Layout``; R by default.
            run_check: give all copies of a replicated part the value of the first one.
            shape: global; without it ranks exchange the sizes of dims that are cut.
            stride: taken for the sake of torch's signature; it is always worked out.
            grad_placements: in which ``local_tensor`` gets its gradient; by default each rank gets
                the whole gradient of its part.

        Raises:
            UsageError: a dim out of range, or a part that does not fit the chunk rule.

        Cost:
            Without ``shape``, one all-reduce of a number for each dim that is cut.
        """
        layout = layout_of_arguments(device_mesh, placements, local_tensor.dim())
        if run_check:
            local_tensor = _same_on_copies(local_tensor, layout)
        return _torch.from_local(
            local_tensor,
            layout,
            None if shape is None else list(shape),
            _gradient_layout(grad_placements, layout, local_tensor.dim()),
        )

    def to_local(self, *, grad_placements: Any = None) -> torch.Tensor:
        """Get this rank's part as a plain tensor, differentiably.

        Args:
            grad_placements: in which the user's gradient comes; by default every rank gives the
                whole gradient of its part, so that of an R axis counts once.
        """
        if is_raw():
            return _torch.local_for_use(self)
        layout = _gradient_layout(grad_placements, _torch.layout(self), self.dim())
        return _torch.to_local(self, layout)

    def full_tensor(self, *, grad_placements: Any = None) -> torch.Tensor:
        """Get the whole value as a plain tensor on every rank, differentiably.

        Cost:
            All-gathers and all-reduces as the layout asks; all ranks must call it.
        """
        layout = _gradient_layout(grad_placements, _torch.layout(self), self.dim())
        return _torch.full_tensor(self, layout)

    def redistribute(
        self,
        device_mesh: Any = None,
        placements: Any = None,
        *,
        layout: Any = None,
        async_op: bool = False,
    ) -> DTensor:
        """Move to another layout with the cheapest known plan; the value is kept.

            rank 0  [a b]               [a b c d]
            rank 1  [c d]   S(0) -> R   [a b c d]

        ``S(0) -> R`` is one all-gather, ``P(sum) -> S(0)`` one reduce-scatter, ``S(0) -> S(1)``
        one all-to-all. The gradient takes the transposed way.

        Args:
            device_mesh: its own by default. A ``Layout`` may stand here alone.
            placements: one an axis; or names for each dim, such as ``("dp", "None")``.
            layout: instead of the two.
            async_op: taken for the sake of torch's signature; the result is used when it is there.

        Returns:
            A tensor of the same global shape; itself if nothing changes.

        Raises:
            UsageError: a dim out of range, a wrong number of placements, no target.
            UnsupportedError: no plan exists, such as R -> P(max); meshes of different ranks.
        """
        if layout is None and placements is None and is_layout_spec(device_mesh):
            layout, device_mesh = device_mesh, None
        elif layout is None:
            layout = placements
        if layout is None:
            raise usage_error(
                "HP-D040", "redistribute: no target", hint="redistribute(placements=[...])"
            )
        if device_mesh is None and not isinstance(layout, (Layout, Layout_)):
            device_mesh = _torch.layout(self).mesh
        return _torch.redistribute(self, layout_of_arguments(device_mesh, layout, self.dim()))

    def reduce_partial(self) -> DTensor:
        """Do all pending reductions: P becomes R."""
        return _torch.reduce_partial(self)

    # ---- Gradients -------------------------------------------------------------------------

    @property
    def grad(self) -> DTensor | None:  # type: ignore[override]
        """The gradient, a DTensor.

        After ``backward()`` that of a leaf is in the leaf's layout. One kept by ``retain_grad``
        is in the dual layout: P(sum) for R, the contributions of ranks not summed yet.
        """
        if self.is_leaf or not _torch.has_down_node(self):
            return _get_grad(self)
        return intermediates.retained_gradient(self)

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        if self.is_leaf or not _torch.has_down_node(self):
            _set_grad(self, value)
            return
        if value is not None:
            value = intermediates.unwrap_gradient(value, _torch.layout(self), list(self.shape))
        _torch.local_for_use(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(self, gradient: torch.Tensor | None = None, *args: Any, **options: Any) -> None:  # type: ignore[override]
        """Compute gradients, as of a plain tensor; an error of one process is named on all.

        A plain ``gradient`` is the whole one, the same on every rank: that of a loss is 1 however
        many ranks hold copies of it. One that is 1 by their number is warned of.
        """
        intermediates.warn_of_share(self, gradient)
        with naming_failures("backward"):
            super().backward(gradient, *args, **options)

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor, which an op made, in ``grad``."""
        if _torch.has_down_node(self):
            _torch.local_for_use(self).retain_grad()
        else:
            super().retain_grad()

    @property
    def retains_grad(self) -> bool:  # type: ignore[override]
        """True after ``retain_grad()`` of a tensor that is no leaf."""
        if _torch.has_down_node(self):
            return _torch.local_for_use(self).retains_grad
        return torch.Tensor.retains_grad.__get__(self)  # type: ignore[attr-defined]

    def register_hook(self, hook: intermediates.Hook) -> RemovableHandle:
        """Call ``hook`` with the gradient, a DTensor, whenever it is computed.

        The gradient of a tensor that an op made comes in the dual layout: P(sum) for R. What the
        hook returns takes its place: a DTensor in any layout, or a plain tensor, taken as whole.
        """
        if _torch.has_down_node(self):
            return intermediates.register_local_hook(self, hook)
        return super().register_hook(intermediates.giving_dual(self, hook))

    # ---- As a Python value -----------------------------------------------------------------

    def __setitem__(self, index: Any, value: Any) -> None:
        if not indexing.assign(self, index, value):
            super().__setitem__(index, value)

    def new_tensor(self, data: Any, **options: Any) -> torch.Tensor:  # type: ignore[override]
        """Make a plain tensor; beside DTensors it counts as the same value on every rank."""
        return torch.empty(0, dtype=self.dtype, device=self.device).new_tensor(data, **options)

    def new(self, *args: Any, **options: Any) -> torch.Tensor:  # type: ignore[override]
        """Make a plain tensor of sizes or data, as the old ``torch.Tensor.new``."""
        return torch.empty(0, dtype=self.dtype, device=self.device).new(*args, **options)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        """Show layout and this rank's part; nothing is communicated."""
        text = f"DTensor({_torch.describe(self)}, local={_torch.local(self)!r}"
        if self.grad_fn is not None:
            text += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            text += ", requires_grad=True"
        return text + ")"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def tolist(self) -> Any:
        """Get the whole value as nested lists; all ranks must call it."""
        return self.detach().full_tensor().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Get the whole value as an array; all ranks must call it."""
        if self.requires_grad and not force:
            return torch.empty(0, requires_grad=True).numpy()  # torch's own error
        return self.detach().full_tensor().numpy(force=force)

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment."
            )
        with torch.no_grad():
            local = _torch.local(self).clone()
            made = _torch.wrap(local, _torch.layout(self), list(self.shape))
        made.requires_grad_(self.requires_grad)
        memo[id(self)] = made
        gradient = _get_grad(self)
        if gradient is not None:
            made.grad = copy.deepcopy(gradient, memo)
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        local = _torch.local(self)
        if local.untyped_storage().nbytes() > local.numel() * local.element_size():
            local = local.clone()  # save this part alone
        layout = _torch.layout(self).to_string_with_mesh()
        state = dict(self.__dict__)
        return _rebuild, (local, layout, list(self.shape), self.requires_grad, state)


def _rebuild(
    local: torch.Tensor, layout: str, sizes: list[int], requires_grad: bool, state: dict[str, Any]
) -> DTensor:
    """Make a DTensor from what was pickled, on a rank at the same place of an equal mesh."""
    tensor = _torch.from_local(local, Layout_.parse(layout), sizes)
    tensor.requires_grad_(requires_grad)
    tensor.__dict__.update(state)
    return tensor


def distribute_tensor(
    tensor: torch.Tensor,
    device_mesh: Any = None,
    placements: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Cut a whole tensor to the parts of ``placements``.

        distribute_tensor(x, mesh, [Shard(0), Replicate()])
        distribute_tensor(x, layout("dp", "None"))

    A leaf gives a new leaf. A tensor with a graph stays in it; its gradient is whole on every
    rank. A DTensor is redistributed.

    Args:
        device_mesh: a mesh, ours or torch's; or a configured ``Layout`` and no placements.
        placements: one an axis, names for each dim, or a ``Layout``; R by default.
        src_data_rank: whose value counts, as a place in the mesh's rank list. With None every rank
            is trusted to hold the same value, and nothing is communicated.

    Raises:
        UsageError: a dim out of range, a wrong number of placements, no such rank.

    Cost:
        One broadcast of the whole tensor, unless ``src_data_rank`` is None.
    """
    layout = layout_of_arguments(device_mesh, placements, tensor.dim())
    source = None
    if src_data_rank is not None:
        ranks = layout.mesh.ranks
        if not 0 <= src_data_rank < len(ranks):
            raise usage_error(
                "HP-M015",
                f"src_data_rank={src_data_rank}: the mesh has {len(ranks)} ranks",
                mesh=layout.mesh,
            )
        source = ranks[src_data_rank]
    kind = getattr(device_mesh, "device_type", tensor.device.type)
    if kind != tensor.device.type and not tensor.is_meta:
        requires_grad = tensor.requires_grad and tensor.is_leaf
        tensor = tensor.to(kind)
        tensor = tensor.detach().requires_grad_() if requires_grad else tensor
    return _torch.distribute_tensor(tensor, layout, source)


def _gradient_layout(placements: Any, layout: Layout_, ndim: int) -> Layout_ | None:
    if placements is None:
        return None
    return resolve_layout(placements, layout.mesh, ndim)


def _same_on_copies(local: torch.Tensor, layout: Layout_) -> torch.Tensor:
    """Give all copies of a replicated part the value of the first one."""
    mesh = layout.mesh
    names = [
        name
        for name, size, placement in zip(mesh.names, mesh.sizes, layout.placements, strict=True)
        if placement.is_replicate() and size > 1
    ]
    if not names:
        return local
    copies = mesh.sub_mesh(names, rank())
    value = _torch.distribute_tensor(local.detach(), Layout_.replicated(copies), copies.ranks[0])
    made = local.clone()
    with torch.no_grad():
        made.copy_(_torch.local(value))
    return made


_torch.set_dtensor_type(DTensor)
intermediates.install()
torch.serialization.add_safe_globals([_rebuild])
