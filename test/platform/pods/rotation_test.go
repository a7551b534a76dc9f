package pods_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"fairway/test/envoy/live"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
)

// serial is a certificate's, as Envoy's page tells it.
var serial = regexp.MustCompile(`"serial_number": "([0-9a-f]+)"[^\]]*"subject_alt_names"[^\]]*"spiffe://`)

// presented is the serial number of the certificate that a pod's Envoy shows others.
func presented(p *kubelet.Pod) (string, error) {
	_, body, err := rig.Call(http.MethodGet, "http://127.0.0.1:15000/certs", p.DialContext)
	if err != nil {
		return "", err
	}
	found := serial.FindStringSubmatch(body)
	if found == nil {
		return "", fmt.Errorf("Envoy shows no certificate: %s", body)
	}
	return found[1], nil
}

// rotation: beside both Envoys of a call the service account's token is replaced on disk, and the certificate rotates, several times, while
// requests run that no proxy may try again, on connections that live for three of them. No request fails.
func (w mesh) rotation(t *testing.T) {
	const rounds = 3
	w.Deploy(t,
		world.Workload{Name: "caller", Version: "v1", Role: "ratings", Build: "1", Life: "1m"},
		world.Workload{Name: "called", Version: "v1", Role: "ratings", Build: "1", Life: "1m"},
	)
	const rule = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: called, namespace: shop}
spec: {host: called, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 3}}}}
`
	w.Apply(t, rule)
	caller, called := w.Ready(t, "shop", "app", "caller", 1)[0], w.Ready(t, "shop", "app", "called", 1)[0]
	rig.Eventually(t, func() error {
		_, err := world.Ask(caller.DialContext, w.VIP(t, "called"), "called", nil)
		return err
	})
	load := live.StartLoad(t, w.inside(t, caller, "called", 4))
	begun := time.Now()
	for range rounds {
		before := map[*kubelet.Pod]string{}
		for _, p := range []*kubelet.Pod{caller, called} {
			now, err := presented(p)
			if err != nil {
				t.Fatal(err)
			}
			before[p] = now
			if err := p.RenewTokens(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		rig.Eventually(t, func() error {
			var errs []error
			for p, was := range before {
				if now, err := presented(p); err != nil || now == was {
					errs = append(errs, fmt.Errorf("%s shows %s still: %v", p.Name(), now, err))
				}
			}
			return errors.Join(errs...)
		})
		load.Await(t, 10)
	}
	load.Stop(t)
	t.Logf("%d tokens and %d certificates were replaced in %s", 2*rounds, 2*rounds, time.Since(begun))
	w.Delete(t, rule)
	w.Kubectl(t, "", "-n", "shop", "delete", "deployment", "caller-v1", "called-v1")
}
