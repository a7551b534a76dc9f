package agent

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fairway/internal/agent/epoch"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/identity/safefile"
)

// plan is what an Envoy of these options is started with, and where its administration will be (a zero port: nowhere).
func (o Options) plan() (epoch.Plan, bootstrap.HostPort, error) {
	p := epoch.Plan{Binary: o.Envoy, Args: o.arguments(), Env: o.environment()}
	var err error
	admin := o.Bootstrap.Admin
	if o.CustomConfig != "" {
		content, err := safefile.Read(o.CustomConfig, longestFile)
		if err != nil {
			return p, admin, usage("custom bootstrap: %w", err)
		}
		if p.Bootstrap, p.Suffix, err = o.custom(content); err != nil {
			return p, admin, usage("custom bootstrap %s: %w", o.CustomConfig, err)
		}
		admin, err = customAdmin(p.Bootstrap)
		if err != nil {
			return p, admin, usage("custom bootstrap %s: %w", o.CustomConfig, err)
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

// customAdmin reads where the administration of a hand-written bootstrap (YAML or JSON) is. A pipe, or none, is a zero
// port: such an Envoy cannot be asked anything.
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

// dynamic says whether a bootstrap (YAML or JSON) takes clusters and listeners from a control plane.
func dynamic(content []byte) bool {
	var b struct {
		Dynamic struct {
			Clusters  any `yaml:"cds_config"`
			Listeners any `yaml:"lds_config"`
		} `yaml:"dynamic_resources"`
	}
	return yaml.Unmarshal(content, &b) == nil && b.Dynamic.Clusters != nil && b.Dynamic.Listeners != nil
}

// portsFree asks for every port that Envoy's own listeners will bind, so that a clash is said in the agent's words.
func portsFree(p bootstrap.Params) error {
	for _, one := range []struct {
		at   bootstrap.HostPort
		flag string
	}{{p.Prometheus, "--prometheusPort"}, {p.Ready, "--readyPort"}} {
		if one.at.Port == 0 {
			continue
		}
		if err := portFree(one.at, one.flag); err != nil {
			return err
		}
	}
	return nil
}

func portFree(at bootstrap.HostPort, flag string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port))))
	if err != nil {
		return usage("Envoy cannot listen on %s: %w; choose another port with %s", at, err, flag)
	}
	return l.Close()
}

// unlike says where renewed options ask for what only another agent can give.
func (o Options) unlike(first Options) error {
	if o.Bootstrap.Admin != first.Bootstrap.Admin || o.Status.Listen != first.Status.Listen || o.ConfigDir != first.ConfigDir {
		return fmt.Errorf(
			"the ports of administration and status, and the configuration's folder, change with a new agent only (%s, %s, %s)",
			o.Bootstrap.Admin,
			o.Status.Listen,
			o.ConfigDir,
		)
	}
	return nil
}
