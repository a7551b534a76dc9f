package kubelet_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/test/platform/kube/cluster"
	"fairway/test/platform/kube/kubelet"
	"fairway/test/rig"
)

func TestMain(m *testing.M) {
	kubelet.Enter()
	os.Exit(rig.Main(m, &service))
}

// service is the bookshop's program.
var service = rig.Program{Name: "service", Package: "./examples/bookinfo/service"}

const pod = `
apiVersion: v1
kind: Secret
metadata: {name: door}
stringData: {key: "open sesame"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 9080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}, annotations: {note: "a \"word\""}}
spec:
  terminationGracePeriodSeconds: 20
  securityContext: {runAsUser: 1000, runAsGroup: 1000}
  volumes:
  - {name: shared, emptyDir: {}}
  - {name: door, secret: {secretName: door, items: [{key: key, path: deep/key}]}}
  - {name: about, downwardAPI: {items: [{path: annotations, fieldRef: {fieldPath: metadata.annotations}}]}}
  - {name: token, projected: {sources: [{serviceAccountToken: {audience: istio-ca, path: token}}]}}
  - {name: later, configMap: {name: later}}
  initContainers:
  - name: first
    image: shop/web:1
    command: [sh, -ec, 'test ! -e /shared/sidecar; echo "$0" "$1" "$2" > /shared/first; id -u >> /shared/first']
    args: [$(POD_IP), $$(POD_IP), $(NONE)]
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: sidecar
    image: shop/web:1
    restartPolicy: Always
    command:
    - sh
    - -c
    - |
      test -s /shared/first || exit 1
      trap "cat /shared/ended; echo sidecar last; exit 0" TERM
      touch /shared/sidecar
      while :; do sleep 0.1; done
    startupProbe: {exec: {command: [test, -e, /shared/sidecar]}}
    lifecycle: {preStop: {exec: {command: [sh, -c, 'echo called > /shared/sidecar']}}}
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: web
    image: shop/web:1
    args: [--role, ratings, --listen, "$(POD_IP):9080"]
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    readinessProbe: {httpGet: {path: /healthz, port: http}}
    ports: [{name: http, containerPort: 9080}]
    lifecycle: {preStop: {sleep: {seconds: 1}}}
    securityContext: {readOnlyRootFilesystem: true}
    volumeMounts:
    - {name: shared, mountPath: /shared}
    - {name: door, mountPath: /etc/door, readOnly: true}
    - {name: about, mountPath: /etc/about}
    - {name: token, mountPath: /var/run/tokens}
    - {name: later, mountPath: /later/key, subPath: key}
  - name: witness
    image: shop/web:1
    command: [sh, -c, 'trap "echo work first > /shared/ended; exit 0" TERM; while :; do sleep 0.1; done']
    volumeMounts: [{name: shared, mountPath: /shared}]
`

// TestPod follows a pod from its creation, when it waits for its volumes, to its end.
func TestPod(t *testing.T) {
	n := kubelet.NewNetwork(t)
	c := cluster.StartIn(t, n.Host)
	k := kubelet.Start(t, c, n, map[string]kubelet.Image{"shop/web": {service.Path(t)}})
	c.Apply(t, pod)
	begun := time.Now()
	c.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: later}, data: {key: here}}")
	p := k.Ready(t, "default", "app", "web", 1)[0]
	t.Logf("ready after %s", time.Since(begun))
	for _, one := range [...]struct{ command, want string }{
		{"cat /shared/first", p.IP() + " $(POD_IP) $(NONE)\n1000\n"},
		{"cat /etc/door/deep/key", "open sesame"},
		{"cat /etc/about/annotations", `note="a \"word\""`},
		{"cat /later/key", "here"},
		{"id -u; id -g", "1000\n1000\n"},
		{"hostname; echo $HOSTNAME", "web\nweb\n"},
		{"cut -d. -f2 /var/run/tokens/token | tr _- /+ | base64 -d 2>/dev/null | grep -o istio-ca", "istio-ca\n"},
		{"touch /file 2>&1 | grep -o 'Read-only file system'", "Read-only file system\n"},
		{"grep CapEff /proc/self/status", "CapEff:\t0000000000000000\n"},
	} {
		got, err := p.Exec(t.Context(), "web", "sh", "-c", one.command)
		if err != nil || got != one.want && one.want != `note="a \"word\""` || !strings.Contains(got, one.want) {
			t.Errorf("%s: %q, %v; want %q", one.command, got, err, one.want)
		}
	}
	code, body, err := rig.Call(http.MethodGet, "http://"+p.IP()+":9080/", n.Host.DialContext)
	if err != nil || code != http.StatusOK || !strings.Contains(body, "ratings") {
		t.Errorf("%d %s, %v", code, body, err)
	}
	c.Apply(t, strings.ReplaceAll(pod[:strings.Index(pod, "---")], "sesame", "wide"))

	// It outlives the API server, which hears later what has become of it.
	c.StopServer()
	p.Kill("witness")
	c.StartServer(t)
	rig.Eventually(t, func() error {
		o, err := c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/pods/web", "", nil)
		if err == nil && !strings.Contains(fmt.Sprint(o), "restartCount:1") {
			err = fmt.Errorf("no restart in %v", o["status"])
		}
		return err
	})
	begun = time.Now()
	if _, err := c.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/default/pods/web", "", nil); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, func() error {
		if _, err := c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/pods/web", "", nil); err == nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
	if took := time.Since(begun); took < time.Second {
		t.Errorf("it ended after %s, before its hook did", took)
	}
	if log := p.Log("sidecar"); log != "work first\nsidecar last\n" {
		t.Errorf("the sidecar says %q", log)
	}
}

// TestNothingIsLeft: the pods of a program that is killed end with it.
func TestNothingIsLeft(t *testing.T) {
	if os.Getenv("FAIRWAY_TEST_KILLED") != "" {
		n := kubelet.NewNetwork(t)
		c := cluster.StartIn(t, n.Host)
		k := kubelet.Start(t, c, n, map[string]kubelet.Image{"shop/web": {service.Path(t)}})
		c.Apply(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: web, image: shop/web,
			command: [sh, -c, 'sleep 1234567 & sleep 1234567']}]}}`)
		k.Ready(t, "default", "app", "web", 1)
		fmt.Println("it runs")
		select {}
	}
	kubelet.NewNetwork(t) // or this test is skipped
	command := exec.Command(os.Args[0], "-test.run=^TestNothingIsLeft$")
	command.Env = append(os.Environ(), "FAIRWAY_TEST_KILLED=1", "TMPDIR="+t.TempDir())
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	said, text := "", make([]byte, 1<<10)
	for !strings.Contains(said, "it runs") {
		n, err := out.Read(text)
		if said += string(text[:n]); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	rig.Eventually(t, func() error {
		if n := sleepers(); n != 2 {
			return fmt.Errorf("%d processes of the pod, want 2", n)
		}
		return nil
	})
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	rig.Eventually(t, func() error {
		if n := sleepers(); n > 0 {
			return fmt.Errorf("%d processes are left", n)
		}
		return nil
	})
}

func sleepers() (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		if text, _ := os.ReadFile(file); string(text) == "sleep\x001234567\x00" {
			n++
		}
	}
	return n
}
