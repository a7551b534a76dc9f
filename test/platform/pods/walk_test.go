package pods_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
	"fairway/test/rig"
	"fairway/test/walk"
)

// httpEcho stands for the image of the pages' services.
var httpEcho = rig.Program{Name: "http-echo", Package: "./test/platform/pods/httpecho"}

// TestStartKubernetes follows docs/start/kubernetes.md, word for word.
func TestStartKubernetes(t *testing.T) {
	follow(t, page(t, "start/kubernetes.md"))
}

// TestFromIstio follows docs/start/from-istio.md. The tests have no istiod: another revision of Fairway has its place, with the port for
// xDS without certificates that istiod has by default, and it signs under the root that istiod would have made.
func TestFromIstio(t *testing.T) {
	blocks := page(t, "start/from-istio.md")
	// The page's first block makes the Secret cacerts from istiod's own root: here before the control plane is there, which needs it.
	all := append([]walk.Block{{Page: "istiod's root", Text: ownRoot}, blocks[0], {Page: "in place of Istio", Text: istio}}, blocks...)
	moved := slices.IndexFunc(all, func(b walk.Block) bool { return strings.Contains(b.Text, "rollout restart") })
	all = slices.Insert(all, moved+1, walk.Block{Page: "calls between both", Text: calls, Prints: "web\nweb\n"})
	home := follow(t, all)
	// Both control planes are one program, and so send the same.
	differences, err := os.ReadFile(filepath.Join(home, "differences.txt"))
	if err != nil || !strings.Contains(string(differences), "nothing would change for the ") {
		t.Errorf("plan finds %s, %v", differences, err)
	}
}

// ownRoot makes the Secret in which istiod keeps a root that it made.
const ownRoot = `
kubectl create namespace istio-system
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /O=cluster.local -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.crt
kubectl create secret generic istio-ca-secret -n istio-system --from-file=ca-cert.pem=ca.crt --from-file=ca-key.pem=ca.key
`

// istio makes a mesh with two namespaces, which call each other by mutual TLS alone.
const istio = `
pilotctl install --set global.hub=registry.example/fairway --set pilot.plaintext=true
for namespace in shop other; do
kubectl create namespace $namespace
kubectl label namespace $namespace istio-injection=enabled
kubectl apply -n $namespace -f - <<'EOF'
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 5678}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: hashicorp/http-echo, args: [-text=web]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: curl, image: curlimages/curl, command: [sleep, infinity]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web}
spec: {hosts: [web], http: [{retries: {attempts: 3}, route: [{destination: {host: web}}]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default}
spec: {mtls: {mode: STRICT}}
EOF
kubectl rollout status deployment -n $namespace --timeout=3m || exit 1
done
`

// calls are made while one namespace belongs to Fairway, and the other to Istio.
const calls = `
kubectl exec -n shop deployment/client -c curl -- curl -s http://web.other/
kubectl exec -n other deployment/client -c curl -- curl -s http://web.shop/
`

func page(t *testing.T, name string) []walk.Block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return walk.Blocks(name, string(text))
}

// follow runs blocks in a cluster without a mesh, and returns the folder where they ran.
func follow(t *testing.T, blocks []walk.Block) (home string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a mesh of real pods takes minutes")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	w := world.StartBare(t, "registry.example/fairway", map[string]kubelet.Image{
		"hashicorp/http-echo": {httpEcho.Path(t)}, "curlimages/curl": {curl},
	})
	// The user's programs run in the network of the cluster.
	bin := t.TempDir()
	home = t.TempDir()
	for name, program := range map[string]string{
		"kubectl": w.Binary() + " kubectl", "pilotctl": world.Programs[3].Path(t), "curl": curl,
	} {
		script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/proc/%d/fd/%d %s \"$@\"\n", os.Getpid(), w.Network.Host.File.Fd(), program)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	walk.Walker{
		Env: []string{
			"HOME=" + home, "XDG_RUNTIME_DIR=" + home, "FAIRWAY_DEV=", "PATH=" + bin + ":" + os.Getenv("PATH"),
			"KUBECONFIG=" + w.Kubeconfig(t, nil, "user", "system:masters"),
		},
		Dir: home, Up: []string{"Forwarding from"}, Patience: time.Minute,
	}.Walk(t, blocks)
	t.Logf("it took %s", time.Since(begun))
	return home
}
