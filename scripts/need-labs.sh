#!/usr/bin/env bash
# need-labs.sh: fails with a message if this user can start no labs: without root they need a
# kernel that allows user namespaces.
[ "$(id -u)" -eq 0 ] || unshare --user --map-root-user --net true 2>/dev/null || {
  echo "This kernel allows no labs without root (weft doctor says more): use sudo" >&2
  exit 1
}
