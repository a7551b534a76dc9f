package attack

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// headlessText is a file of so many headless Services, each of so many pods with addresses of their own, in slices of 100.
func headlessText(services, pods int) string {
	var out strings.Builder
	for s := range services {
		fmt.Fprintf(&out, "apiVersion: v1\nkind: Service\nmetadata: {name: h%d, namespace: shop}\n"+
			"spec: {clusterIP: None, selector: {app: h%[1]d}, ports: [{name: tcp, port: 2181}, {name: http, port: 8080}]}\n---\n", s)
		for from := 0; from < pods; from += 100 {
			fmt.Fprintf(&out, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: h%d-%d, namespace: shop, "+
				"labels: {kubernetes.io/service-name: h%[1]d}}\naddressType: IPv4\n"+
				"ports: [{name: tcp, port: 2181}, {name: http, port: 8080}]\nendpoints:\n", s, from)
			for p := from; p < min(from+100, pods); p++ {
				fmt.Fprintf(&out, "- {addresses: [10.%d.%d.%d], conditions: {ready: true}, "+
					"targetRef: {kind: Pod, name: h%[1]d-%d, namespace: shop}}\n", s, p/250, 1+p%250, p)
			}
			out.WriteString("---\n")
		}
		for p := range pods {
			fmt.Fprintf(&out, "apiVersion: v1\nkind: Pod\nmetadata: {name: h%d-%d, namespace: shop, labels: {app: h%[1]d}}\n"+
				"spec: {serviceAccountName: h%[1]d, containers: [{name: app, image: app}]}\n"+
				"status: {podIP: 10.%[1]d.%[3]d.%[4]d, phase: Running}\n---\n", s, p, p/250, 1+p%250)
		}
	}
	return out.String()
}

// TestAnalyzeOfHeadlessServices: headless Services of thousands of pods, each with a listener of its own, are analyzed in bounded time
// and memory.
func TestAnalyzeOfHeadlessServices(t *testing.T) {
	text := headlessText(20, 500) + "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: shop}\n" +
		"spec: {hosts: [h3.shop.svc.cluster.local], http: [{route: [{destination: {host: h33.shop.svc.cluster.local}}]}]}\n"
	file := rig.Write(t, rig.Folder(t), "headless.yaml", []byte(text))
	var out bytes.Buffer
	c := exec.CommandContext(t.Context(), pilotctl.Path(t), "analyze", file)
	c.Stdout, c.Stderr = &out, &out
	from := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	often := time.NewTicker(10 * time.Millisecond)
	defer often.Stop()
	var most int64
	for running := true; running; {
		select {
		case <-often.C:
			if n, err := mostOf(c.Process.Pid); err == nil {
				most = n
			}
		case <-ended:
			running = false
		}
	}
	took := time.Since(from)
	worked := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	t.Logf("%d KB: %s, %s of a processor, %d MiB; %.1500s", len(text)>>10, took, worked, most>>20, out.String())
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "h33.shop.svc.cluster.local") {
		t.Errorf("exit code %d", c.ProcessState.ExitCode())
	}
	if worked > 15*time.Second {
		t.Errorf("it took %s of a processor", worked)
	}
	if most > 768<<20 {
		t.Errorf("it took %d MiB", most>>20)
	}
}
