#!/usr/bin/env bash
# install.sh PROGRAM... | --for demo|test: makes sure that programs are installed: those
# named, or all that somebody needs. On Debian and Ubuntu it installs the packages of
# missing ones, after saying so; elsewhere it names them. scripts/packages.txt lists all
# of them with the reason.
set -euo pipefail
list=$(dirname "$0")/packages.txt

if [ "${1:-}" = --for ]; then
  mapfile -t wanted < <(awk -v who="$2" '!/^#/ && ("," $3 ",") ~ ("," who ",") { print $1 }' "$list")
  set -- go "${wanted[@]}"
fi

# has PROGRAM: whether a program, a header or a Python module is there.
has() {
  case $1 in
    *.h) command -v gcc >/dev/null && echo "#include <$1>" | gcc -E -x c - >/dev/null 2>&1 ;;
    pyverbs) /usr/bin/python3 -c 'import pyverbs' 2>/dev/null ;;
    *) PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin command -v "$1" >/dev/null ;;
  esac
}

missing=() packages=()
for program in "$@"; do
  has "$program" && continue
  if [ "$program" = go ]; then
    echo "Go 1.26 or newer is needed and not on the PATH: install it from https://go.dev/dl" >&2
    exit 1
  fi
  found=$(awk -v program="$program" '$1 == program { print $2 }' "$list")
  [ -n "$found" ] || { echo "install.sh: scripts/packages.txt does not list $program" >&2; exit 2; }
  IFS=, read -ra more <<<"$found"
  missing+=("$program") packages+=("${more[@]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
if ! command -v apt-get >/dev/null; then
  echo "These programs are missing: ${missing[*]}. Install them with your system's package manager." >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "These programs are missing: ${missing[*]}. Run as root: apt-get install ${packages[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "Missing: ${missing[*]}. Installing with apt-get: ${packages[*]}" >&2
# The programs are installed without starting the services of some packages.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get "$@" >"$log" 2>&1; }
install() { apt install -y --no-install-recommends "${packages[@]}"; }
install || { apt update && install; } || { tail -n 5 "$log" >&2; exit 1; }
