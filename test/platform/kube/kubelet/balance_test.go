package kubelet_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

const balanced = `
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 8080, targetPort: 9080}]}
---
apiVersion: v1
kind: Service
metadata: {name: usable}
spec: {type: LoadBalancer, loadBalancerIP: 10.251.255.1, selector: {app: web}, ports: [{port: 8080, targetPort: 9080}]}
---
apiVersion: v1
kind: Service
metadata: {name: unusable}
spec: {type: LoadBalancer, loadBalancerIP: 10.252.0.1, selector: {app: web}, ports: [{port: 8080, targetPort: 9080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers: [{name: web, image: shop/web:1, args: [--role, ratings, --listen, ":9080"], ports: [{containerPort: 9080}]}]
`

// TestBalance: Services of type LoadBalancer get the addresses that they may have, and clients reach their pods there.
func TestBalance(t *testing.T) {
	n := kubelet.NewNetwork(t)
	c := cluster.StartIn(t, n.Host)
	k := kubelet.Start(t, c, n, map[string]kubelet.Image{"shop/web": {service.Path(t)}})
	k.Carry(t)
	k.Balance(t)
	c.Apply(t, balanced)
	address := func(name string) (string, error) {
		o, err := c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/services/"+name, "", nil)
		if err != nil {
			return "", err
		}
		status, _ := o["status"].(map[string]any)
		balancer, _ := status["loadBalancer"].(map[string]any)
		all, _ := balancer["ingress"].([]any)
		if len(all) != 1 {
			return "", errors.New(name + " has no address")
		}
		first, _ := all[0].(map[string]any)
		return fmt.Sprint(first["ip"]), nil
	}
	for _, name := range []string{"balanced", "usable"} {
		rig.Eventually(t, func() error {
			ip, err := address(name)
			if err != nil {
				return err
			}
			if name == "usable" && ip != kubelet.Usable {
				t.Fatalf("%s has the address %s", name, ip)
			}
			reply, err := live.Try(live.Request{To: ip + ":8080", Host: "web", Dial: n.Host.DialContext})
			if err == nil && reply.Status >= http.StatusInternalServerError {
				err = fmt.Errorf("%s answers %d", ip, reply.Status)
			}
			return err
		})
	}
	if ip, err := address("unusable"); err == nil {
		t.Errorf("a Service has the address %s", ip)
	}
}
