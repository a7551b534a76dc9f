package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary be the program itself, so that its exit codes and signals are tested without building it again.
const asProgram = "PILOT_DISCOVERY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program prepares a run in a folder of its own: nothing that lies around where tests run is read. It is killed if it takes too long.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// local returns flags that make the program listen only on free loopback ports.
func local(more ...string) []string {
	return append(
		[]string{
			"discovery",
			"--grpcAddr=127.0.0.1:0",
			"--secureGRPCAddr=",
			"--httpAddr=127.0.0.1:0",
			"--monitoringAddr=127.0.0.1:0",
			"--shutdownDuration=10ms",
		},
		more...)
}

// secured returns such flags for a program that serves certificates too.
func secured(more ...string) []string {
	return local(append([]string{"--secureGRPCAddr=127.0.0.1:0", "--httpsAddr=127.0.0.1:0", "--caStateDir="}, more...)...)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMistakesEndWithCode2AndSayWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := writeFile(t, "rule.yaml", "")
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown command", []string{"discover"}, []string{`unknown command "discover"`}},
		{"unknown flag", local("--configDirs=x"), []string{"unknown flag: --configDirs"}},
		{"argument", local("rules"), []string{`unknown command "rules"`}},
		{"duration without a unit", local("--keepaliveInterval=30"), []string{"--keepaliveInterval", "missing unit"}},
		{"duration of zero", local("--sendTimeout=0s"), []string{"--sendTimeout", "want a positive duration"}},
		{
			"negative duration",
			local("--referenceGrace=-1s", "--shutdownDuration=-1s"),
			[]string{"--referenceGrace: -1s", "--shutdownDuration: -1s"},
		},
		{"number of zero", local("--maxStreams=0"), []string{"--maxStreams: 0", "want a positive number"}},
		{"missing folder", local("--configDir=/nowhere/at/all"), []string{"--configDir", "/nowhere/at/all", "name an existing folder"}},
		{"file as folder", local("--configDir=" + file), []string{"--configDir", file, "is not a folder"}},
		{"port in use", local("--grpcAddr=" + taken.Addr().String()), []string{"--grpcAddr", taken.Addr().String(), "choose another port"}},
		{"monitoring port in use", local("--monitoringAddr=" + taken.Addr().String()), []string{"--monitoringAddr", "choose another port"}},
		{"bad address", local("--httpAddr=nowhere"), []string{"--httpAddr", "nowhere", "want host:port"}},
		{"no address for proxies", local("--grpcAddr="), []string{"--secureGRPCAddr", "no proxy can connect"}},
		{"unknown registry", local("--registries=Zoo"), []string{"--registries", `"Zoo"`, "Kubernetes"}},
		{"bad domain", local("--domain=a b"), []string{"--domain", `"a b"`, "cluster.local"}},
		{"log level", local("--log_output_level=loud"), []string{"--log_output_level", `"loud"`, "debug, info, warn, error, none"}},
		{"several at once", local("--maxStreams=0", "--domain="), []string{"--maxStreams", "--domain"}},
		{
			"mesh configuration that is not YAML",
			local("--meshConfig=" + writeFile(t, "mesh", "trustDomain: a\n  b: [\n")),
			[]string{"--meshConfig", "mesh:2"},
		},
		{"mesh configuration with an unknown field", local("--meshConfig=" + writeFile(t, "mesh", "trustDomain: a\ntrustDomian: b\n")),
			[]string{"--meshConfig", "mesh:2: ", "trustDomian", "trustDomain"}},
		{
			"mesh configuration with a bad value",
			local("--meshConfig=" + writeFile(t, "mesh", "\nconnectTimeout: soon\n")),
			[]string{"--meshConfig", "mesh:2: ", "connectTimeout"},
		},
		{"mesh configuration that is a folder", local("--meshConfig=" + t.TempDir()), []string{"--meshConfig", "it is not a regular file"}},
		{"missing mesh configuration", local("--meshConfig=/nowhere/m"), []string{"--meshConfig: /nowhere/m does not exist; create it"}},
		{"missing networks", local("--networksConfig=/nowhere/n"), []string{"--networksConfig: /nowhere/n does not exist; create it"}},
		{"missing registries", local("--registriesConfig=/nowhere/r"), []string{"--registriesConfig: /nowhere/r does not exist"}},
		{"missing injector", local("--injectConfigFolder=/nowhere/i"), []string{"--injectConfigFolder: /nowhere/i does not exist"}},
		{"missing kubeconfig", local("--kubeconfig=/nowhere/k"), []string{"--kubeconfig", "/nowhere/k"}},
		{"missing keys of the injector", secured("--injectKeyFile=/nowhere/k"), []string{"--injectKeyFile", "/nowhere/k"}},
		{"missing certificate", secured("--tlsCertFile=/nowhere/c", "--tlsKeyFile=/nowhere/k"), []string{"--tlsCertFile", "/nowhere/c"}},
		{"missing roots", secured("--caCertFile=/nowhere/c"), []string{"--caCertFile", "/nowhere/c"}},
		{
			"missing keys of an issuer",
			secured("--tokenIssuer=https://issuer.example", "--tokenKeys=/nowhere/k"),
			[]string{"--tokenKeys: /nowhere/k"},
		},
		{
			"networks with an unknown field",
			local("--networksConfig=" + writeFile(t, "networks", "networks: {}\nnetwork: {}\n")),
			[]string{"--networksConfig", "networks:2: ", "network"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := program(t, c.args...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Fatalf("ended with %v, want exit code 2:\n%s", err, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("says %q, want it to contain %q", out, want)
				}
			}
			if !strings.HasPrefix(string(out), "pilot-discovery: ") || strings.Contains(string(out), "goroutine ") {
				t.Errorf("says %q, want a plain message of pilot-discovery", out)
			}
		})
	}
}

// running is a started program and a scanner of its log.
type running struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	seen  bytes.Buffer
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{cmd: program(t, append(local("--log_as_json"), args...)...)}
	log, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(log)
	return r
}

// line reads the log up to the line with a message.
func (r *running) line(t *testing.T, msg string) map[string]any {
	t.Helper()
	for r.lines.Scan() {
		r.seen.Write(append(r.lines.Bytes(), '\n'))
		var line map[string]any
		if err := json.Unmarshal(r.lines.Bytes(), &line); err != nil {
			t.Fatalf("a log line is not JSON: %q: %v", r.lines.Text(), err)
		}
		if line["msg"] == msg {
			return line
		}
	}
	t.Fatalf("the log has no line %q:\n%s", msg, r.seen.String())
	return nil
}

// end reads the rest of the log and waits for the program.
func (r *running) end() error {
	for r.lines.Scan() {
		r.seen.Write(append(r.lines.Bytes(), '\n'))
	}
	return r.cmd.Wait()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const badRule = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews]
  http:
  - rout: []
    directResponse: {status: 418}
`

// TestRunsUntilSIGTERM: a bad rule does not keep the program from starting, and a signal to stop is not a failure.
func TestRunsUntilSIGTERM(t *testing.T) {
	rules := t.TempDir()
	if err := os.WriteFile(filepath.Join(rules, "bad.yaml"), []byte(badRule), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "--configDir="+rules)
	listening := r.line(t, "listening")
	synced := r.line(t, "synced")
	if synced["problems"] != float64(1) {
		t.Errorf("synced with %v problems, want 1", synced["problems"])
	}
	web, monitoring := "http://"+listening["http"].(string), "http://"+listening["monitoring"].(string)
	if code, body := get(t, web+"/ready"); code != http.StatusOK {
		t.Errorf("/ready: %d %s", code, body)
	}
	if code, body := get(t, web+"/debug/problems"); code != http.StatusOK || !strings.Contains(body, `"name": "reviews"`) ||
		!strings.Contains(body, `"line": 7`) {
		t.Errorf("/debug/problems: %d %s, want the rule and its line", code, body)
	}
	if code, body := get(t, monitoring+"/metrics"); code != http.StatusOK || !strings.Contains(body, "pilot_info{") ||
		!strings.Contains(body, `fairway_problems{severity="error"} 1`) {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.end(); err != nil {
		t.Errorf("ended with %v, want exit code 0:\n%s", err, r.seen.String())
	}
}

func TestInterruptEndsWithCode0(t *testing.T) {
	r := start(t)
	r.line(t, "synced")
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := r.end(); err != nil {
		t.Errorf("ended with %v, want exit code 0", err)
	}
}

// TestHelpNamesIstiosFlags: design: the flags that users' manifests give to Istio's program.
func TestHelpNamesIstiosFlags(t *testing.T) {
	out, err := program(t, "discovery", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, flag := range []string{
		"configDir", "registries", "meshConfig", "networksConfig", "grpcAddr", "secureGRPCAddr", "httpAddr", "httpsAddr",
		"monitoringAddr", "clusterID", "domain",
		"keepaliveInterval", "keepaliveTimeout", "keepaliveMaxServerConnectionAge", "shutdownDuration", "namespace",
		"log_output_level", "log_as_json",
	} {
		if !strings.Contains(string(out), "--"+flag+" ") {
			t.Errorf("--help does not name --%s", flag)
		}
	}
}

func TestVersionAndBareCommand(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {}, {"help"}} {
		if out, err := program(t, args...).CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}
