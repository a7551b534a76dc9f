package gatewayapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

const deployment = `
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: ${namespace}, ownerReferences: ${owner}}
spec: {type: LoadBalancer, selector: {gateway.networking.k8s.io/gateway-name: ${label}}, ports: ${ports}, loadBalancerIP: "${ip}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ${name}, namespace: ${namespace}, ownerReferences: ${owner}}
spec:
  selector: {matchLabels: {gateway.networking.k8s.io/gateway-name: ${label}}}
  template:
    metadata:
      labels: {gateway.networking.k8s.io/gateway-name: ${label}, sidecar.istio.io/inject: "true"}
      annotations: {inject.istio.io/templates: gateway}
    spec:
      securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "0"}]}
      containers: [{name: istio-proxy, image: auto}]
`

// deploy makes a gateway for each Gateway until the test ends. THROW-AWAY: until the control plane does so.
func deploy(t *testing.T, w *world.World) {
	ctx, stop := context.WithCancel(context.Background())
	var under sync.WaitGroup
	t.Cleanup(func() { stop(); under.Wait() })
	under.Go(func() {
		done := map[string]string{}
		for ctx.Err() == nil {
			if err := deployAll(ctx, t, w, done); err != nil && ctx.Err() == nil {
				t.Logf("deploy: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

func deployAll(ctx context.Context, t *testing.T, w *world.World, done map[string]string) error {
	o, err := w.Do(ctx, http.MethodGet, "/apis/gateway.networking.k8s.io/v1/gateways", "", nil)
	if err != nil {
		return err
	}
	var all gatewayv1.GatewayList
	text, _ := json.Marshal(o)
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if err := deployOne(ctx, t, w, &all.Items[i], done); err != nil {
			return err
		}
	}
	return nil
}

func deployOne(ctx context.Context, t *testing.T, w *world.World, g *gatewayv1.Gateway, done map[string]string) error {
	label := g.Name
	if len(label) > 63 {
		sum := sha256.Sum256([]byte(g.Name))
		label = g.Name[:54] + "-" + hex.EncodeToString(sum[:])[:8]
	}
	name := label
	if len(name) > 54 {
		sum := sha256.Sum256([]byte(g.Name))
		name = g.Name[:46] + "-" + hex.EncodeToString(sum[:])[:8]
	}
	name += "-fairway"
	type port struct {
		Name     string `json:"name"`
		Port     int32  `json:"port"`
		Protocol string `json:"protocol"`
	}
	var ports []port
	had := map[string]bool{}
	for _, l := range g.Spec.Listeners {
		p := port{Name: fmt.Sprintf("tcp-%d", l.Port), Port: int32(l.Port), Protocol: "TCP"}
		if l.Protocol == "UDP" {
			p.Name, p.Protocol = fmt.Sprintf("udp-%d", l.Port), "UDP"
		}
		if !had[p.Name] {
			had[p.Name] = true
			ports = append(ports, p)
		}
	}
	for _, at := range []int32{80, 8080, 443} { // of ListenerSets
		if p := fmt.Sprintf("tcp-%d", at); !had[p] && g.Spec.AllowedListeners != nil {
			ports = append(ports, port{p, at, "TCP"})
		}
	}
	ip := ""
	for _, a := range g.Spec.Addresses {
		ip = a.Value
	}
	list, _ := json.Marshal(ports)
	owner := fmt.Sprintf("[{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, name: %q, uid: %q}]", g.Name, g.UID)
	text := rig.Fill(t, "deployment", deployment, rig.Pairs(
		"name", name, "namespace", g.Namespace, "label", label, "owner", owner, "ports", string(list), "ip", ip,
	))
	if done[string(g.UID)] != text {
		for _, o := range objects(t, text) {
			const how = "?fieldManager=deploy&force=true"
			if _, err := w.Do(ctx, http.MethodPatch, o.path+how, "application/apply-patch+yaml", o.body); err != nil {
				return err
			}
		}
		done[string(g.UID)] = text
	}
	s, err := w.Do(ctx, http.MethodGet, "/api/v1/namespaces/"+g.Namespace+"/services/"+name, "", nil)
	if err != nil {
		return err
	}
	status, _ := s["status"].(map[string]any)
	balancer, _ := status["loadBalancer"].(map[string]any)
	ingress, _ := balancer["ingress"].([]any)
	if len(ingress) == 0 {
		return nil
	}
	first, _ := ingress[0].(map[string]any)
	address := fmt.Sprint(first["ip"])
	if len(g.Status.Addresses) == 1 && g.Status.Addresses[0].Value == address {
		return nil
	}
	_, err = w.Do(ctx, http.MethodPatch, "/apis/gateway.networking.k8s.io/v1/namespaces/"+g.Namespace+"/gateways/"+g.Name+"/status",
		"application/merge-patch+json", fmt.Appendf(nil, `{"status": {"addresses": [{"type": "IPAddress", "value": %q}]}}`, address))
	return err
}

type object struct {
	path string
	body []byte
}

func objects(t *testing.T, text string) (out []object) {
	for _, o := range cluster.Objects(t, text) {
		body, _ := json.Marshal(o)
		at := "/api/v1/namespaces/" + o.Meta("namespace") + "/services/"
		if o["kind"] == "Deployment" {
			at = "/apis/apps/v1/namespaces/" + o.Meta("namespace") + "/deployments/"
		}
		out = append(out, object{at + o.Meta("name"), body})
	}
	return out
}
