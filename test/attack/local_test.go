package attack

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/build/envoybin"
	"fairway/test/rig"
)

// beside is an agent with its Envoy on a machine that other users share.
type beside struct {
	*rig.Process
	dir    string
	serves int // port of Envoy's listener
	envoy  struct{ Pid, BaseID, Epoch int }
}

// answering is a bootstrap with one listener, which answers by itself.
const answering = `{"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}}, "static_resources": {"listeners": [{
  "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}, "filter_chains": [{"filters": [{"name": "http", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "in",
    "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]}}}]}]}]}}`

// startBeside starts them and waits until Envoy serves.
func startBeside(t *testing.T, env ...string) *beside {
	t.Helper()
	path := agent.Path(t)
	b := &beside{dir: rig.Folder(t), serves: int(rig.FreePort(t))}
	rig.Write(t, b.dir, "bootstrap.json", fmt.Appendf(nil, answering, rig.FreePort(t), b.serves))
	status := fmt.Sprint(rig.FreePort(t))
	b.Process = rig.Workload{
		Command: rig.Command{
			Name: "beside", Path: path, Dir: b.dir, Args: []string{"--statusPort", status},
			Env: append([]string{"PROXY_CONFIG={customConfigFile: bootstrap.json}"}, env...),
		},
		IP: "127.0.0.1", Discovery: "127.0.0.1:1", Envoy: envoyBinary(t), Drain: "100ms",
	}.Launch(t)
	var said struct {
		Envoys struct{ Serving json.RawMessage }
	}
	rig.Eventually(t, func() error {
		b.Running(t)
		return errors.Join(b.answers(), rig.Read("http://127.0.0.1:"+status+"/debug/agent", &said))
	})
	if err := json.Unmarshal(said.Envoys.Serving, &b.envoy); err != nil {
		t.Fatal(err)
	}
	return b
}

func envoyBinary(t *testing.T) string {
	t.Helper()
	binary, err := envoybin.Find()
	if testing.Short() || err != nil {
		t.Skip("it takes an Envoy and more than seconds", err)
	}
	return binary
}

// answers asks Envoy, on a new connection.
func (b *beside) answers() error {
	code, body, err := rig.Call(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", b.serves), nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %s", code, body)
	}
	return err
}

// restartSocket is where an Envoy of a base id may listen for its successor, or its successor for it; path is empty for
// the abstract socket.
func (b *beside) restartSocket(path, role string, epoch int) *syscall.SockaddrUnix {
	name := fmt.Sprintf("%s_%s_%d", path, role, b.envoy.BaseID*10+epoch%3)
	if path == "" {
		name = "@envoy_domain_socket" + name
		name += strings.Repeat("\x00", 108-len(name)) // Envoy's has the whole length
	}
	return &syscall.SockaddrUnix{Name: name}
}

// HotRestartMessage of Envoy's hot_restart.proto: request (1) with one of these.
const (
	passListener = 1
	terminate    = 5
)

// say sends a request of hot restart's protocol as the next epoch would, and returns how many descriptors came back.
func (b *beside) say(path string, request protowire.Number, content []byte) (descriptors int, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if path == "" { // below a path only the owner can make a socket
		if err := syscall.Bind(fd, b.restartSocket(path, "child", b.envoy.Epoch+1)); err != nil {
			return 0, err
		}
	}
	body := protowire.AppendBytes(protowire.AppendTag(nil, request, protowire.BytesType), content)
	body = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), body)
	message := append(binary.BigEndian.AppendUint64(nil, uint64(len(body))), body...)
	if err := syscall.Sendto(fd, message, 0, b.restartSocket(path, "parent", b.envoy.Epoch)); err != nil {
		return 0, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return 0, err
	}
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 4096), control, 0)
	return n / unix.CmsgSpace(4), err
}

// words are an Envoy's command line, variables its environment.
func (b *beside) words(t *testing.T) []string     { return procList(t, b.envoy.Pid, "cmdline") }
func (b *beside) variables(t *testing.T) []string { return procList(t, b.envoy.Pid, "environ") }

func procList(t *testing.T, pid int, name string) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// TestAnotherUserDoesNotReachHotRestart: a program that may speak to an Envoy's hot-restart socket can take its
// listeners, or end it. Another user of the machine may not, neither with raw messages nor with an Envoy of his own,
// and Envoy serves on.
func TestAnotherUserDoesNotReachHotRestart(t *testing.T) {
	b := startBeside(t)
	path := ""
	if words := b.words(t); slices.Contains(words, "--socket-path") {
		path = words[slices.Index(words, "--socket-path")+1]
	}
	listener := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprintf("tcp://127.0.0.1:%d", b.serves))
	for _, at := range []string{"", path} {
		for name, message := range map[string]func() (int, error){
			"take a listener": func() (int, error) { return b.say(at, passListener, listener) },
			"end Envoy":       func() (int, error) { return b.say(at, terminate, nil) },
		} {
			var descriptors int
			err := rig.AsUser(t, rig.Nobody, func() (err error) { descriptors, err = message(); return err })
			if descriptors > 0 || !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s by %q: %d listeners taken, %v", name, at, descriptors, err)
			}
		}
	}
	for _, more := range [][]string{{}, {"--socket-path", path}} {
		b.nobodysEnvoy(t, more)
	}
	if err := errors.Join(b.answers(), syscall.Kill(b.envoy.Pid, 0)); err != nil {
		t.Errorf("Envoy does not serve any more: %v", err)
	}
}

// nobodysEnvoy starts an Envoy that wants to be the next epoch; it must not come to that.
func (b *beside) nobodysEnvoy(t *testing.T, more []string) {
	t.Helper()
	file := rig.Write(t, rig.Folder(t), "envoy.json", []byte(`{}`))
	args := append([]string{"-c", file, "--base-id", fmt.Sprint(b.envoy.BaseID), "--restart-epoch", fmt.Sprint(b.envoy.Epoch + 1)}, more...)
	c := exec.Command(envoyBinary(t), args...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: rig.Nobody, Gid: rig.Nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strings.Contains(string(out), "starting main dispatch loop") {
		t.Errorf("nobody's Envoy with %v: %v\n%.3000s", more, err, out)
	}
}

// TestAnotherUserReadsNothingOfTheAgents: no file of its folder can be opened by another user, and there are some.
func TestAnotherUserReadsNothingOfTheAgents(t *testing.T) {
	b := startBeside(t, "XDS_RELAY=true")
	folder := filepath.Join(b.dir, "etc/istio/proxy")
	var all []string
	_ = filepath.WalkDir(folder, func(path string, _ os.DirEntry, _ error) error { all = append(all, path); return nil })
	if len(all) < 5 {
		t.Fatalf("the agent's files: %v", all)
	}
	err := rig.AsUser(t, rig.Nobody, func() (open error) {
		for _, path := range all {
			if f, err := os.Open(path); !errors.Is(err, os.ErrPermission) {
				f.Close()
				open = errors.Join(open, fmt.Errorf("%s: %w", path, err))
			}
		}
		return open
	})
	if err != nil {
		t.Error(err)
	}
	for _, path := range all {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v, want it for its owner alone", path, info, err)
		}
	}
}

// TestEnvoyHoldsNoSecretsOfTheAgents: Envoy's variables, which a rule can make it send (%ENVIRONMENT(X)%), are on a list, and tokens are
// not.
func TestEnvoyHoldsNoSecretsOfTheAgents(t *testing.T) {
	b := startBeside(t, "CLOUD_TOKEN=s3cr3t", "AWS_SECRET_ACCESS_KEY=s3cr3t", "NAMED=wanted", "ENVOY_ENV_PASS=NAMED", "TZ=UTC")
	got := b.variables(t)
	for _, want := range []string{"NAMED=wanted", "TZ=UTC", "POD_NAME=beside"} {
		if !slices.Contains(got, want) {
			t.Errorf("Envoy lacks %s: %q", want, got)
		}
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, "s3cr3t") || strings.Contains(all, "ENVOY_ENV_PASS") {
		t.Errorf("Envoy's variables: %q", got)
	}
}
