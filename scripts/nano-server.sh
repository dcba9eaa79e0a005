# To be sourced: a server of the demo model for a script, gone with it. Sets `state`, a folder of the
# script's own, and with start_server `url`, without a path.
state=$(mktemp -d)
log=$state/log
server=

stop_server() {
  [[ -n $server ]] && { kill -INT "$server" 2> /dev/null; wait "$server" 2> /dev/null || true; }
  rm -rf "$state"
}
trap stop_server EXIT

# start_server PROGRAM FLAG...
start_server() {
  "$1" serve models/k3-nano --port 0 --threads 1 --state-dir "$state/jobs" "${@:2}" 2> "$log" &
  server=$!
  for _ in $(seq 300); do
    url=$(sed -nE 's|.*(http://[^ /]+).*|\1|p' "$log" | head -1)
    [[ -n $url ]] && return
    kill -0 "$server" 2> /dev/null || break
    sleep 0.1
  done
  echo "the server does not start" >&2
  cat "$log" >&2
  exit 1
}

# python_packages VENV PACKAGE...: a virtual environment with the packages; if that cannot be had, the reason.
python_packages() {
  command -v python3 > /dev/null || { echo "there is no python3"; return 1; }
  "$1/bin/python" -c "import $(IFS=,; echo "${*:2}")" 2> /dev/null && return
  python3 -m venv "$1" > "$log" 2>&1 &&
    "$1/bin/pip" install --quiet --disable-pip-version-check --timeout 20 --retries 1 "${@:2}" \
      > "$log" 2>&1 || { tail -1 "$log"; return 1; }
}
