// Package command is pilot-agent's command line: proxy runs Envoy beside a workload, wait waits until it is ready, request
// asks it, iptables has the kernel hand it the workload's connections.
//
// Flags and environment become options here and in package settings; other packages act on them.
package command
