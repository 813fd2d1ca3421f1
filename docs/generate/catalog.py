"""docs/reference/catalog.md: the presets, with what tells them apart. The files have every number and its source."""

from docs.generate.markdown import code, page, table
from tunewright.domain.catalog_loader import shipped_catalog
from tunewright.domain.model_architecture import ModelArchitecture
from tunewright.domain.parameters import ParameterCounts
from tunewright.units import GIB

_INTRODUCTION = (
    "What `preset` may name. Each is one file in `operator/tunewright/domain/catalog`, with the source of its numbers."
    " `gpt-LAYERSl-HIDDENh-HEADSa` names a GPT of any size. Files of [your own](../guides/own-accelerator.md) stand"
    " beside them."
)


def catalog_page() -> str:
    """Return the page: models, accelerators, networks."""
    catalog = shipped_catalog()
    models = [catalog.model(name) for name in catalog.models]
    devices = [catalog.accelerator(name) for name in catalog.accelerators]
    networks = [catalog.network(name) for name in catalog.networks]
    model_rows = [
        (
            code(model.name),
            f"{ParameterCounts.of(model).total / 1e9:,.4g}",
            str(model.num_layers),
            str(model.hidden_size),
            _experts(model),
        )
        for model in models
    ]
    device_rows = [
        (
            code(device.name),
            device.architecture,
            f"{device.hbm_capacity_bytes / GIB:,.0f}",
            ", ".join(f"{name} {value / 1e12:,.0f}" for name, value in device.peak_flops_per_second.items()),
            ", ".join(device.pci_device_ids),
        )
        for device in devices
    ]
    network_rows = [(code(network.name), f"{network.bytes_per_second_per_gpu * 8 / 1e9:,.0f}") for network in networks]
    return page(
        "Catalog",
        _INTRODUCTION,
        "## Models",
        table(("preset", "10⁹ parameters", "layers", "hidden size", "experts"), model_rows),
        "## Accelerators",
        table(("preset", "architecture", "memory, GiB", "peak, 10¹² FLOP/s", "PCI device ids"), device_rows),
        "## Networks",
        table(("preset", "10⁹ bit/s per accelerator"), network_rows),
    )


def _experts(model: ModelArchitecture) -> str:
    return str(model.experts.num_experts) if model.experts else ""
