package dev

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"fairway/internal/config"
	"fairway/internal/dev/folder"
	"fairway/internal/mesh"
)

// workloadLabel distinguishes the workloads of one service: each has a Sidecar of its own.
const workloadLabel = "fairway/workload"

// namespace is where all workloads are.
const namespace = "default"

// gatewayLabels are those of gateways, which Istio's samples select.
var gatewayLabels = map[string]string{"istio": "ingressgateway"}

// joined is a workload with its place.
type joined struct {
	folder.Workload
	folder.Place
}

// labels are those of its WorkloadEntry, and of its proxy.
func (j joined) labels() map[string]string {
	out := map[string]string{"app": j.Name}
	if j.Gateway {
		maps.Copy(out, gatewayLabels)
	}
	maps.Copy(out, j.Workload.Labels)
	out[workloadLabel] = j.Place.Workload
	return out
}

// portName is the name of its port in objects.
func (j joined) portName() string { return strings.ToLower(j.Protocol) }

type tree = map[string]any

// service is the ServiceEntry of a name.
func (j joined) service() tree {
	number := uint16(80)
	if p, _ := mesh.ParseProtocol(j.Protocol); !p.IsHTTP() {
		number = j.Port
	}
	return object("ServiceEntry", j.Name, tree{
		"hosts": []string{j.Host}, "location": "MESH_INTERNAL", "resolution": "STATIC",
		"ports":            []tree{{"number": number, "name": j.portName(), "protocol": j.Protocol}},
		"workloadSelector": tree{"labels": tree{"app": j.Name}},
	})
}

// own are the objects of the workload alone.
func (j joined) own() []tree {
	template := tree{"serviceAccount": j.Name}
	group := tree{"metadata": tree{"labels": j.labels()}, "template": template}
	if j.Gateway {
		return []tree{object("WorkloadGroup", j.Place.Workload, group)}
	}
	template["ports"] = tree{j.portName(): j.Inbound}
	group["probe"] = tree{"tcpSocket": tree{"host": "127.0.0.1", "port": j.Port}, "periodSeconds": 1}
	egress := []tree{listener("http-proxy", "HTTP", j.Outbound, j.Address, "*/*")}
	for i, u := range j.Upstreams {
		egress = append(egress, listener(fmt.Sprintf("upstream-%d", i), u.Protocol, u.Port, "127.0.0.1", "*/"+full(u.Host)))
	}
	return []tree{
		object("WorkloadGroup", j.Place.Workload, group),
		object("Sidecar", j.Place.Workload, tree{
			"workloadSelector": tree{"labels": tree{workloadLabel: j.Place.Workload}},
			"ingress": []tree{{
				"port": tree{"number": j.Inbound, "name": j.portName(), "protocol": j.Protocol},
				"bind": j.Address, "captureMode": "NONE", "defaultEndpoint": fmt.Sprintf("127.0.0.1:%d", j.Port),
			}},
			"egress": egress,
		}),
	}
}

// listener is an egress listener of a Sidecar.
func listener(name, protocol string, port uint16, bind, hosts string) tree {
	return tree{
		"port": tree{"number": port, "name": name, "protocol": protocol},
		"bind": bind, "captureMode": "NONE", "hosts": []string{hosts},
	}
}

// full is a host's whole name: a name without a dot is one of the workloads here.
func full(host string) string {
	if strings.Contains(host, ".") {
		return host
	}
	return host + "." + namespace + ".svc.cluster.local"
}

func object(kind, name string, spec tree) tree {
	return tree{
		"apiVersion": "networking.istio.io/v1", "kind": kind, "metadata": tree{"name": name, "namespace": namespace}, "spec": spec,
	}
}

// decode decodes objects as those of a file are. The first error is returned: it is one in what the workload said of itself.
func decode(d *config.Decoder, of string, objects ...tree) (out []*config.Object, err error) {
	for _, o := range objects {
		text, err := json.MarshalIndent(o, "", "  ")
		if err != nil {
			return nil, err
		}
		one, problems := d.Decode(config.Document{File: of, Line: 1, Text: text})
		for _, p := range problems {
			if p.Severity == mesh.Error {
				return nil, fmt.Errorf("%s: %s", p.Field, p.Message)
			}
		}
		if one == nil {
			return nil, fmt.Errorf("%s %s cannot be made", o["kind"], of)
		}
		out = append(out, one)
	}
	return out, nil
}
