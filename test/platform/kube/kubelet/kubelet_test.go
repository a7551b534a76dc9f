package kubelet_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

const talker = `
apiVersion: v1
kind: Pod
metadata: {name: talker, labels: {app: talker}}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsGroup: 1000}
  volumes: [{name: shared, emptyDir: {}}]
  containers:
  - name: talks
    image: shop/web:1
    command: [sh, -c, 'echo run $(cat /shared/run || echo one); echo two > /shared/run; echo aside >&2; while test ! -e /shared/end; do sleep 0.1; done; rm /shared/end; echo end']
    volumeMounts: [{name: shared, mountPath: /shared}]
  - {name: web, image: shop/web:1, args: [--role, ratings, --listen, "127.0.0.1:9080"]}
---
apiVersion: v1
kind: Pod
metadata: {name: once, labels: {app: once}}
spec: {restartPolicy: Never, containers: [{name: once, image: shop/web:1, command: [sh, -c, 'echo done; exit 3']}]}
`

// TestStreams: kubectl shows what containers write, runs programs in them and forwards their ports, over WebSocket and SPDY.
func TestStreams(t *testing.T) {
	n := kubelet.NewNetwork(t)
	c := cluster.StartIn(t, n.Host)
	k := kubelet.Start(t, c, n, map[string]kubelet.Image{"shop/web": {service.Path(t)}})
	c.Apply(t, talker)
	k.Ready(t, "default", "app", "talker", 1)
	s := asked{t, c, c.Kubeconfig(t, nil, "user", "system:masters")}
	s.logs()
	for _, webSocket := range []string{"true", "false"} {
		t.Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", webSocket)
		t.Setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", webSocket)
		s.exec()
		s.forward(n)
	}
	// Only the API server may ask.
	raw, err := n.Host.DialContext(t.Context(), "tcp", kubelet.HostIP+":10250")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	stranger := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	fmt.Fprint(stranger, "GET /containerLogs/default/talker/web HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(stranger); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate the kubelet answers %s, %v", answer, err)
	}
}

// asked is a cluster with pods that kubectl asks.
type asked struct {
	t          *testing.T
	c          *cluster.Cluster
	kubeconfig string
}

// does runs kubectl until it prints a text and ends with a code.
func (s asked) does(input, want string, code int, args ...string) {
	s.t.Helper()
	rig.Eventually(s.t, func() error {
		out, err := s.c.Kubectl(s.t.Context(), s.kubeconfig, s.t.TempDir(), input, args...)
		var exit *exec.ExitError
		ended := 0
		if errors.As(err, &exit) {
			ended = exit.ExitCode()
		}
		if !strings.Contains(out, want) || ended != code {
			return fmt.Errorf("kubectl %s: %v: %q; want %q and %d", strings.Join(args, " "), err, out, want, code)
		}
		return nil
	})
}

func (s asked) logs() {
	s.t.Helper()
	s.does("", "run one\naside\n", 0, "logs", "talker", "-c", "talks")
	s.does("", "previous terminated container \"talks\" in pod \"talker\" not found", 1, "logs", "talker", "-c", "talks", "--previous")
	follows := make(chan string, 1)
	go func() {
		out, err := s.c.Kubectl(s.t.Context(), s.kubeconfig, "", "", "logs", "-f", "--tail=1", "talker", "-c", "talks")
		follows <- fmt.Sprint(out, err)
	}()
	s.does("", "", 0, "exec", "talker", "-c", "talks", "--", "touch", "/shared/end")
	if got := <-follows; !strings.HasSuffix(got, "end\n<nil>") {
		s.t.Errorf("logs -f prints %q", got)
	}
	s.does("", "run two\naside\n", 0, "logs", "talker", "-c", "talks")
	s.does("", "run one\naside\nend\n", 0, "logs", "talker", "-c", "talks", "--previous")
	s.does("", "aside\n", 0, "logs", "talker", "-c", "talks", "--tail=1", "--since=1h")
	s.does("", fmt.Sprintf("%d-", time.Now().UTC().Year()), 0, "logs", "talker", "-c", "talks", "--timestamps")
	s.does("", "done\n", 0, "logs", "once") // it has ended
	s.does("", "is not valid for pod", 1, "logs", "talker", "-c", "nobody")
}

func (s asked) exec() {
	s.t.Helper()
	in := func(script string) []string {
		return []string{"exec", "-i", "talker", "-c", "web", "--", "sh", "-c", script}
	}
	s.does("a text", "a text 1000 talker\n", 0, in("cat; echo ' '$(id -u) $(hostname)")...)
	s.does("", "command terminated with exit code 7", 7, in("exit 7")...)
	s.does("", "to stderr", 0, in("echo to stderr >&2")...)
	s.does("never read", "", 0, in("true")...)
	s.does("", "executable file not found", 1, "exec", "talker", "-c", "web", "--", "nothing-such")
	s.does("", "completed pod", 1, "exec", "once", "--", "true")
	big := strings.Repeat("0123456789abcdef", 1<<16)
	s.does(big, fmt.Sprintf("%d\n", len(big)), 0, in("wc -c")...)
}

// forward asks a server that only the pod's loopback has.
func (s asked) forward(n *kubelet.Network) {
	s.t.Helper()
	f := rig.Launch(s.t, rig.Command{
		Name: "kubectl", Path: s.c.Binary(), Dir: s.t.TempDir(), In: n.Host,
		Args: []string{"kubectl", "--kubeconfig", s.kubeconfig, "port-forward", "pod/talker", "18080:9080", "18081:9"},
	})
	await := func(want string) {
		s.t.Helper()
		rig.Eventually(s.t, func() error {
			if log := f.Log.String(); !strings.Contains(log, want) {
				return fmt.Errorf("port-forward prints %q, not %q", log, want)
			}
			return nil
		})
	}
	await("127.0.0.1:18081 -> 9")
	for range 3 {
		code, body, err := rig.Call(http.MethodGet, "http://127.0.0.1:18080/", n.Host.DialContext)
		if err != nil || code != http.StatusOK || !strings.Contains(body, "ratings") {
			s.t.Errorf("%d %s, %v", code, body, err)
		}
	}
	if code, body, err := rig.Call(http.MethodGet, "http://127.0.0.1:18081/", n.Host.DialContext); err == nil {
		s.t.Errorf("a port that nothing listens on answers %d %s", code, body)
	}
	await("connection refused")
	f.Signal(syscall.SIGINT)
	f.Exit(s.t)
}
