package workload

import "strings"

// stateDir is the part of the folder that the agent may write: certificates, Envoy's bootstraps and sockets, and what it keeps for a start
// without the control plane. The rest belongs to root: root runs commands with the variables in the folder, so an agent's user that could
// write them could run commands as root.
const stateDir = "state"

// unit returns a systemd unit that runs the agent (systemd.service(5), systemd.exec(5)). The agent itself reports when the proxy is ready.
// Signals go only to the agent, because it drains Envoy. If the agent is killed, Envoy serves on, intercepted as before, until the next
// agent adopts it: so the agent sees the machine's own /tmp and processes, and may change network settings, because the next agent has to
// find them.
func (m *machine) unit() string {
	capabilities := "CAP_NET_BIND_SERVICE"
	if m.Interception == "TPROXY" {
		capabilities += " CAP_NET_ADMIN"
	}
	lines := []string{
		"[Unit]",
		"Description=Envoy for " + m.name + "." + m.namespace + " (Fairway's agent)",
		"Wants=network-online.target",
		"After=network-online.target",
		"StartLimitIntervalSec=0",
		"",
		"[Service]",
		"Type=notify",
		"NotifyAccess=main",
		"User=" + m.User,
		"WorkingDirectory=" + m.Directory,
		"EnvironmentFile=" + m.Directory + "/" + envFile,
	}
	lines = append(lines, m.asRoot()...)
	lines = append(lines,
		"ExecStart="+m.Agent+" proxy sidecar --meshConfig ./"+meshFile,
		"ExecReload=/bin/kill -HUP $MAINPID")
	if m.Interception != "NONE" {
		lines = append(lines,
			"ExecStopPost=+/bin/sh -c 'if [ \"$$SERVICE_RESULT\" = success ]; then exec "+m.Agent+" istio-iptables --cleanup; fi'")
	}
	lines = append(lines,
		"AmbientCapabilities="+capabilities,
		"CapabilityBoundingSet="+capabilities,
		"NoNewPrivileges=yes",
		"ProtectSystem=full",
		"ReadWritePaths=-"+m.Directory+"/"+stateDir, // which may be below /etc or /usr
		"ProtectControlGroups=yes",
		"ProtectKernelModules=yes",
		"RestrictSUIDSGID=yes",
		"LimitNOFILE=1048576",
		"KillMode=process",
		"Restart=always",
		"RestartSec=2",
		"TimeoutStartSec=300",
		"TimeoutStopSec=90",
		"",
		"[Install]",
		"WantedBy=multi-user.target",
		"")
	return strings.Join(lines, "\n")
}

// asRoot returns the commands that need root (the plus), in order. They name no file that the agent's user could replace. The user may read
// the token, which may be gone once it has been used (the minus).
func (m *machine) asRoot() []string {
	out := []string{
		"ExecStartPre=+/usr/bin/install -d -m 0755 -o root -g root " + m.Directory,
		"ExecStartPre=+/usr/bin/install -d -m 0700 -o " + m.User + " " + m.Directory + "/" + stateDir,
		"ExecStartPre=+-/bin/chown " + m.User + " " + m.Directory + "/" + tokenFile,
	}
	if m.Interception != "NONE" {
		out = append(out, "ExecStartPre=+"+m.Agent+" istio-iptables")
	}
	return out
}
