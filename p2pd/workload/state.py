"""A torch module as named tensors: canonical names, schema, load.

Names lose what wrappers add (`module.` of DistributedDataParallel, `_orig_mod.` of torch.compile);
tensors that are tied to one another count once, under the first of their names in sorted order.
"""

from collections.abc import Mapping

import torch
from torch import nn

from p2pd.core.work import Schema, TensorSpec
from p2pd.errors import WorkloadError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""By their names in safetensors files."""
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def canonical_name(name: str) -> str:
    parts = [part for part in name.split(".") if part != "_orig_mod"]
    while len(parts) > 1 and parts[0] == "module":
        del parts[0]
    return ".".join(parts)


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """The live tensors of a module by canonical name, sorted.

    Raises:
        WorkloadError: something in the module's state is no tensor, or two names become one.
    """
    named: dict[str, torch.Tensor] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        canonical = canonical_name(name)
        if not isinstance(tensor, torch.Tensor):
            raise WorkloadError(
                f"{name} in the model's state is no tensor: keep extra state out of it"
            )
        if canonical in named:
            raise WorkloadError(f"two tensors of the model are both called {canonical}: rename one")
        named[canonical] = tensor
    seen: set[int] = set()
    state: dict[str, torch.Tensor] = {}
    for name in sorted(named):
        if id(named[name]) not in seen:
            seen.add(id(named[name]))
            state[name] = named[name]
    return state


def aliases_of(module: nn.Module) -> dict[str, str]:
    """The names that state_of drops, each with the one under which its tensor counts."""
    names: dict[int, str] = {}
    aliases: dict[str, str] = {}
    named = module.state_dict(keep_vars=True).items()
    for full, tensor in sorted(named, key=lambda each: canonical_name(each[0])):
        name = canonical_name(full)
        first = names.setdefault(id(tensor), name)
        if first != name:
            aliases[name] = first
    return aliases


def schema_of(module: nn.Module) -> Schema:
    """Everything that is no Parameter is a buffer.

    Raises:
        WorkloadError: as state_of, or a tensor has a type that no head can hold.
    """
    return Schema(
        tuple(
            TensorSpec(name, _dtype_name(name, tensor), tuple(tensor.shape), _is_buffer(tensor))
            for name, tensor in state_of(module).items()
        )
    )


def load_into(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Copies a state into a module's own tensors, so that its optimizer keeps working on them.

    Raises:
        WorkloadError: names, types or shapes differ; the message says where.
    """
    own = state_of(module)
    missing, foreign = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or foreign:
        raise WorkloadError(f"state does not fit the model: {_difference(missing, foreign)}")
    for name, tensor in own.items():
        other = state[name]
        if (other.dtype, other.shape) != (tensor.dtype, tensor.shape):
            raise WorkloadError(
                f"{name} is {other.dtype} {tuple(other.shape)},"
                f" the model wants {tensor.dtype} {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(state[name])


def require(state: Mapping[str, torch.Tensor], schema: Schema) -> None:
    """
    Raises:
        WorkloadError: what a workload gave as its state is not what its schema says.
    """
    wanted = {tensor.name: tensor for tensor in schema.tensors}
    missing, foreign = sorted(wanted.keys() - state.keys()), sorted(state.keys() - wanted.keys())
    if missing or foreign:
        raise WorkloadError(f"state() is not what schema() says: {_difference(missing, foreign)}")
    for name, tensor in wanted.items():
        found = state[name]
        if (found.dtype, tuple(found.shape)) != (DTYPES[tensor.dtype], tensor.shape):
            raise WorkloadError(
                f"state() has {name} as {_short(found.dtype)} {tuple(found.shape)}, schema() said "
                f"{tensor.dtype} {tensor.shape}: a model keeps its types and shapes"
            )


def _difference(missing: list[str], foreign: list[str]) -> str:
    lack = f"it lacks {missing[0]} ({len(missing)} in all)" if missing else ""
    extra = f"the model has no {foreign[0]} ({len(foreign)} in all)" if foreign else ""
    return ", ".join(part for part in (lack, extra) if part)


def _dtype_name(name: str, tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided:
        raise WorkloadError(f"{name} is {_short(tensor.layout)}: a head holds dense tensors only")
    if tensor.dtype not in DTYPE_NAMES:
        raise WorkloadError(
            f"{name} is {_short(tensor.dtype)}: a head holds {', '.join(DTYPES)} only"
        )
    return DTYPE_NAMES[tensor.dtype]


def _short(kind: torch.dtype | torch.layout) -> str:
    return str(kind).removeprefix("torch.")


def _is_buffer(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, nn.Parameter)
