#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# agent.sh ADDRESS COMMAND...: what rsh or ssh would do on a real network. Runs the command in the network namespace
# that has the address, under a host name and on a core of its own; as launchers call it, with words to be joined.
host=${1##*.}
shift
exec ip netns exec "$RINGMARK_HOSTS$host" unshare --uts sh -c 'hostname "$0" && exec taskset -c "$1" sh -c "$2"' \
  "$RINGMARK_HOSTS$host" $(((host - 1) % $(nproc))) "$*"
