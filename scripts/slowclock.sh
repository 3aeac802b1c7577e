#!/usr/bin/env bash
# slowclock.sh [DIRECTORY]: builds the library with which weft exec --dilated shows
# programs a dilated lab's clock, into bin or DIRECTORY, and installs what that
# needs.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-bin}
scripts/install.sh gcc
mkdir -p "$out"
gcc -std=gnu11 -O2 -g -Wall -Wextra -Wno-nonnull-compare -Werror -fno-delete-null-pointer-checks -fPIC -shared -pthread -Wl,-soname,slowclock.so -Wl,-z,defs -Wl,-z,now \
  -o "$out/.slowclock.so.new" netns-lab/slowclock/*.c -ldl -lrt
mv "$out/.slowclock.so.new" "$out/slowclock.so" # running programs keep the old one
