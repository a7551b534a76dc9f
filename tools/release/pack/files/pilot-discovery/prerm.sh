#!/bin/sh
# Before the files go. Debian says remove, Fedora says how many versions stay: a newer version that comes keeps the service.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now pilot-discovery.service || true
	fi
	;;
esac
