#!/bin/sh
# After the files are there: the user, and the unit if systemd runs. The service is not started: it has to be configured first.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers pilot-discovery.conf
elif ! getent passwd fairway >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/fairway --no-create-home --shell /usr/sbin/nologin fairway
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# A newer version takes over. Proxies go on with what they have meanwhile.
	systemctl try-restart pilot-discovery.service || true
fi
