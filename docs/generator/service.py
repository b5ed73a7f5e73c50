"""Numbers of the service page, between its two marks."""

from __future__ import annotations

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from kinrank_bench.service_load import client_table, describe_memory

HEAD = ("concurrent clients", "seconds", "searches per second", "p50, ms", "p95, ms", "p99, ms", "200", "503", "other")


def parts(found: Measurements) -> list[str]:
    """Searches by clients, the long run, overload, and changes under load."""
    service = found.service
    if not service:
        return ["Nothing has been measured yet: `make bench-service`, then `make docs`."]
    made = [
        f"{service['set']}, {service['items']} items of {service['dimensions']} dimensions, {service['workers']} "
        "workers, online LPMT, k 10; clients and service share the machine.",
        table([HEAD, *client_table(service).rows]),
    ]
    memory = [size for size in service.get("sustained", {}).get("memory_bytes", ()) if size is not None]
    if memory:
        sizes = describe_memory(service)
        made.append(f"Memory of all processes at the start, in the middle and at the end of the long run: {sizes}.")
    if "changes" in service:
        one = service["changes"]
        made.append(
            f"While items were added and removed under load ({one['present'] + one['gone']} added, {one['gone']} of "
            f"them removed again), the service answered {one['readers']['per_second']:.0f} searches per second. Of the "
            f"acknowledged changes, {one['lost'] + one['back']} were lost in the service and {one['lost_on_disk']} on "
            "disk."
        )
    return [*made, f"Printed by `kinrank bench service --data DIR`. {tell_origin(service)}"]
