#!/bin/sh
# Starts three hosts on one store, gives them runs, kills one host every few seconds, and shows
# that every run ends. Usage: examples/cluster/run.sh [path of the program]
set -eu
windlass=$(realpath "${1:-target/debug/windlass}")
cd "$(dirname "$0")"
rm -rf data
hosts=""
trap 'kill $hosts 2>/dev/null || true' EXIT

host() {
    "$windlass" serve --log warn &
    hosts="$hosts $!"
    last=$!
}

host; first=$last
host; second=$last
host
for number in 1 2 3 4 5 6; do
    "$windlass" runs start relay.yaml
done
sleep 4
echo "killing one host"; kill -9 "$first"
sleep 4
echo "killing another"; kill -9 "$second"; host
until [ "$("$windlass" -o json runs list | grep -c '"completed"')" -eq 6 ]; do
    sleep 1
done
"$windlass" runs list
