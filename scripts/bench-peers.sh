#!/bin/sh
# Send the same OTLP load to ours, MLflow and Phoenix, each peer in an environment of its own (make bench-peers).
set -eu
cd "$(dirname "$0")/.."
python=$(command -v python3.11 || sh scripts/find-python.sh)  # the locks of the peers are for 3.11
sh scripts/environment.sh .venvs/bench bench "$python"
for peer in mlflow phoenix; do
    sh scripts/environment.sh ".venvs/peers/$peer" "peers/$peer" "$python" || echo "$peer could not be installed; it is left out"
done
exec .venvs/bench/bin/python -m benchmarks.peers_otlp .venvs/peers
