"""Measurements -> the numbers on the page of the service, between two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from kinrank.bench.service import table_rows

HEAD = ("clients at once", "seconds", "searches a second", "p50, ms", "p95, ms", "p99, ms", "200", "503", "other")


def parts(found: Measurements) -> list[str]:
    """Searches by clients, the long run, overload, and changes under load."""
    service = found.service
    if not service:
        return ["Nothing has been measured yet: `make bench-service`, then `make docs`."]
    made = [
        f"{service['set']}, {service['items']} items of {service['dimensions']} dimensions, {service['workers']} "
        "workers, online LPMT, k 10; clients and service share the machine.",
        table([HEAD, *table_rows(service)]),
    ]
    memory = [size for size in service.get("sustained", {}).get("memory_bytes", ()) if size is not None]
    if memory:
        sizes = ", ".join(f"{size / 2**20:.0f} MB" for size in memory)
        made.append(f"Memory of all processes at the start, in the middle and at the end of the long run: {sizes}.")
    if "changes" in service:
        one = service["changes"]
        made.append(
            f"While items came and went under load ({one['present'] + one['gone']} added, {one['gone']} of them "
            f"removed again), {one['readers']['per_second']:.0f} searches a second were answered. Of the "
            f"acknowledged changes {one['lost'] + one['back']} were lost in the service, {one['lost_on_disk']} on disk."
        )
    return [*made, f"Printed by `kinrank bench service --data DIR`, {found.machines['service']}."]
