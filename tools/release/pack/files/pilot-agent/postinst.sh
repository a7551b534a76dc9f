#!/bin/sh
# After the files are there: the user, and the unit if systemd runs. The service is not started: it has to be configured first.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers pilot-agent.conf
elif ! getent passwd istio-proxy >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/fairway --no-create-home --shell /usr/sbin/nologin istio-proxy
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# The agent of before runs on: systemctl restart pilot-agent replaces it, when the workload may do without it for a moment.
fi
