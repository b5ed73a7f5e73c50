"""All benches. The docstring of the function that measures is the help of its command."""

from __future__ import annotations

from kinrank_bench.accuracy import accuracy, render_accuracy, show_accuracy
from kinrank_bench.declaration import Bench
from kinrank_bench.default_parameters import defaults, show_defaults
from kinrank_bench.diagnosis import build_diagnosis_tables, diagnosis
from kinrank_bench.feedback_gain import feedback, show_feedback
from kinrank_bench.fit_gain import learned_methods, learned_table
from kinrank_bench.modes import MODE_PANEL, OBSERVATION_PANEL, modes
from kinrank_bench.paper.paper_bench import paper
from kinrank_bench.paper.paper_page import paper_summary, write_files
from kinrank_bench.photos import photos, show_photos
from kinrank_bench.record import Record, build_panels
from kinrank_bench.scale import scale, show_scale
from kinrank_bench.service_load import service, show_service
from kinrank_bench.tables import render_text
from kinrank_bench.time_and_memory import CANDIDATE_PANEL, MEMORY_PANEL, candidates, memory, show_speed, speed
from kinrank_bench.vector_databases import show_stores, stores
from kinrank_bench.whitening_gain import whitening, whitening_table

DECLARED = (
    Bench(
        "accuracy",
        accuracy,
        show_accuracy,
        "Scores, gains and times of methods on published sets.",
        render=render_accuracy,
    ),
    Bench("candidates", candidates, CANDIDATE_PANEL.build, "One query over its candidates, in milliseconds."),
    Bench("defaults", defaults, show_defaults, "Defaults of LPMT on sets left out of their fit."),
    Bench("diagnosis", diagnosis, build_diagnosis_tables, "Predictions without labels, compared with results."),
    Bench("feedback", feedback, show_feedback, "Gains by a few marked results."),
    Bench(
        "learned",
        learned_methods,
        lambda record: [learned_table(record)],
        "Gains of learned methods, by training data.",
    ),
    Bench("memory", memory, MEMORY_PANEL.build, "Peak memory of every method."),
    Bench(
        "modes",
        modes,
        lambda record: build_panels(record, MODE_PANEL, OBSERVATION_PANEL),
        "Accuracy by mode and by remembered queries.",
    ),
    Bench("paper", paper, paper_summary, "Tables and figures of the paper, on your features.", write_files=write_files),
    Bench("photos", photos, show_photos, "Time and gain on encoded images."),
    Bench("scale", scale, show_scale, "Online: accuracy, latency, builds of several sizes."),
    Bench("service", service, show_service, "`kinrank serve` under load: searches per second, overload, durability."),
    Bench("speed", speed, show_speed, "Time, memory, growth, import, compilation."),
    Bench("stores", stores, show_stores, "Rankings and times over real vector databases."),
    Bench("whitening", whitening, lambda record: [whitening_table(record)], "Changes by whitening."),
)
BENCHES = {bench.name: bench for bench in DECLARED}


def format_record(record: Record) -> str:
    """Format the tables of a record as text; then version, number of threads and date."""
    parts = [part if isinstance(part, str) else render_text(part) for part in BENCHES[record["bench"]].show(record)]
    machine = f"kinrank {record['version']}, {record['machine']['threads']} threads, {record['date']}"
    return "\n\n".join([*filter(None, parts), machine])
