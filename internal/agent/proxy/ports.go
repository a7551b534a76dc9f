package proxy

import (
	"net"
	"strconv"

	"go.yaml.in/yaml/v3"

	"fairway/internal/agent/settings"
	"fairway/internal/envoy/bootstrap"
)

// dynamic reports whether a bootstrap (YAML or JSON) takes clusters and listeners from a control plane.
func dynamic(content []byte) bool {
	var b struct {
		Dynamic struct {
			Clusters  any `yaml:"cds_config"`
			Listeners any `yaml:"lds_config"`
		} `yaml:"dynamic_resources"`
	}
	return yaml.Unmarshal(content, &b) == nil && b.Dynamic.Clusters != nil && b.Dynamic.Listeners != nil
}

// portsFree opens every port that Envoy's own listeners will bind, so that the agent reports a conflict in its own words.
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
		return settings.Usage("Envoy cannot listen on %s: %w; choose another port with %s", at, err, flag)
	}
	return l.Close()
}
