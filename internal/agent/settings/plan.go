package settings

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"fairway/internal/agent/epoch"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/identity/safefile"
)

// Plan returns what an Envoy of these options is started with, and the address of its administration (a zero port: it has none).
func (o Options) Plan() (epoch.Plan, bootstrap.HostPort, error) {
	p := epoch.Plan{Binary: o.Envoy, Args: o.arguments(), Env: o.environment()}
	var err error
	admin := o.Bootstrap.Admin
	if o.CustomConfig != "" {
		content, err := safefile.Read(o.CustomConfig, longestFile)
		if err != nil {
			return p, admin, Usage("custom bootstrap: %w", err)
		}
		if p.Bootstrap, p.Suffix, err = o.custom(content); err != nil {
			return p, admin, Usage("custom bootstrap %s: %w", o.CustomConfig, err)
		}
		admin, err = customAdmin(p.Bootstrap)
		if err != nil {
			return p, admin, Usage("custom bootstrap %s: %w", o.CustomConfig, err)
		}
		return p, admin, nil
	}
	p.Suffix = ".json"
	if strings.Contains(o.Override, bootstrap.DrainAction) || strings.Contains(o.Override, bootstrap.DrainMonitor) {
		o.Bootstrap.DrainFile = "" // each may stand in a bootstrap once, and there it is the user's
	}
	message, err := bootstrap.Build(o.Bootstrap)
	if err != nil {
		return p, admin, &UsageError{err}
	}
	if p.Bootstrap, err = bootstrap.JSON(message); err != nil {
		return p, admin, &UsageError{err}
	}
	return p, admin, nil
}

// customAdmin returns the address of the administration in a hand-written bootstrap (YAML or JSON). If it is a pipe, or missing,
// the port is zero: such an Envoy cannot be asked anything.
func customAdmin(content []byte) (bootstrap.HostPort, error) {
	var b struct {
		Admin struct {
			Address struct {
				Socket struct {
					Address string `yaml:"address"`
					Port    uint16 `yaml:"port_value"`
				} `yaml:"socket_address"`
			} `yaml:"address"`
		} `yaml:"admin"`
	}
	if err := yaml.Unmarshal(content, &b); err != nil {
		return bootstrap.HostPort{}, err
	}
	host := b.Admin.Address.Socket.Address
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return bootstrap.HostPort{Host: host, Port: b.Admin.Address.Socket.Port}, nil
}

// arguments returns Envoy's arguments, except those that tie it to other epochs.
func (o Options) arguments() []string {
	args := []string{
		"--log-level", o.LogLevel,
		"--file-flush-interval-msec", "1000",
		"--drain-strategy", o.Restarts.DrainStrategy,
	}
	if o.ComponentLogLevel != "" {
		args = append(args, "--component-log-level", o.ComponentLogLevel)
	}
	if o.Concurrency > 0 {
		args = append(args, "--concurrency", fmt.Sprint(o.Concurrency))
	}
	if o.Override != "" {
		args = append(args, overrideFlag, o.Override)
	}
	return args
}

// overrideFlag is the flag with a value that Envoy merges over the bootstrap.
const overrideFlag = "--config-yaml"

// OverrideOf returns what a plan's Envoy merges over its bootstrap: Options.Override.
func OverrideOf(p epoch.Plan) string {
	if at := slices.Index(p.Args, overrideFlag); at >= 0 && at+1 < len(p.Args) {
		return p.Args[at+1]
	}
	return ""
}
