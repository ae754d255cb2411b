"""What keyfold tells operators, read by Prometheus' own strict parser. KEYFOLD_METRICS is where it is asked for."""

import os
import urllib.request

import prometheus_client
from prometheus_client.openmetrics.parser import text_string_to_metric_families

with urllib.request.urlopen(os.environ["KEYFOLD_METRICS"], timeout=20) as answer:
    kind, text = answer.headers["Content-Type"], answer.read().decode()
if not kind.startswith("application/openmetrics-text; version=1.0.0"):
    raise SystemExit(f"metrics are {kind}")
families = {family.name: family for family in text_string_to_metric_families(text)}
if len(families) < 40:
    raise SystemExit(f"only {len(families)} families: {sorted(families)}")
told = sum(sample.value for sample in families["keyfold_commands"].samples)
timed = sum(s.value for s in families["keyfold_command_duration_seconds"].samples if s.name.endswith("_count"))
if not 0 < timed <= told:
    raise SystemExit(f"{told} commands, {timed} of them timed")
version = getattr(prometheus_client, "__version__", "")
print(f"prometheus_client {version}: {len(families)} families, {told:.0f} commands, as it should be")
