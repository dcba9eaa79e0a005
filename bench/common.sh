# For the scripts in this folder, which source it: --help, and what must be there.

# The comment at the head of the script.
print_usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "$0"; }

# help_if_asked ARGUMENTS...
help_if_asked() {
  case ${1:-} in
    -h | --help)
      print_usage
      exit 0
      ;;
  esac
}

refuse() {
  echo "$0: $1" >&2
  exit 2
}

need_root() { [ "$(id -u)" = 0 ] || refuse "must be run as root"; }

# need COMMANDS...
need() {
  local command
  for command in "$@"; do
    command -v "$command" > /dev/null || refuse "needs $command, which is not there"
  done
}

need_program() { [ -x "$1" ] || refuse "$1 is no program; build it first (make), or name another"; }
