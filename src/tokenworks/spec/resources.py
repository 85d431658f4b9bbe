"""What one pod asks for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from tokenworks.spec.common import Cores, Document, Size, quantity_value, refused


class Resources(Document):
    """What one replica asks for; limits equal requests for memory and GPUs."""

    gpus: Annotated[int, Field(ge=0, le=16)] = Field(description="0 only for CPU simulators.")
    cpu: Cores = Field(description="CPU cores that are reserved.")
    memory: Size = Field(description="Memory, /dev/shm included.")
    ephemeral_storage: Size = Field(
        default="10Gi", description="Disk of the node for logs, caches and what is downloaded."
    )
    shared_memory: Size | None = Field(
        default=None, description="/dev/shm; default 8Gi when tensorParallel exceeds 1."
    )

    @model_validator(mode="after")
    def _shared_memory_fits(self) -> Resources:
        if self.shared_memory is not None and quantity_value(self.shared_memory) >= quantity_value(
            self.memory
        ):
            raise refused(
                f"found {self.shared_memory}, but memory is {self.memory} and must hold it",
                allowed="less than memory",
                remedy="raise memory or lower sharedMemory",
                field="sharedMemory",
            )
        return self
